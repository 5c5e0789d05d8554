// Package gitserver serves git repositories over https to tests. Repositories are built object by object, so that a test
// can build what no git would.
package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Modes of tree entries.
const (
	File       = "100644"
	Executable = "100755"
	Link       = "120000"
	Directory  = "40000"
	Submodule  = "160000"
)

// Entry is a name in a tree.
type Entry struct {
	Mode string
	Name string
	ID   plumbing.Hash
}

// Repository is a repository in memory. It is not changed any more once it is served.
type Repository struct {
	// Head is the full name of the default branch.
	Head string
	// References are all references by their full name.
	References map[string]plumbing.Hash
	// AllowAny tells that every commit is handed out, and not only those that a reference names.
	AllowAny bool
	// Deep tells that the server knows no shallow clones.
	Deep bool

	storage *memory.Storage
	parents map[plumbing.Hash][]plumbing.Hash
	trees   map[plumbing.Hash][]Entry
	commits map[plumbing.Hash]plumbing.Hash // commit or tag to what it is of
}

// New returns a repository without any object, whose default branch is main.
func New() *Repository {
	return &Repository{
		Head: "refs/heads/main", References: map[string]plumbing.Hash{}, storage: memory.NewStorage(),
		parents: map[plumbing.Hash][]plumbing.Hash{}, trees: map[plumbing.Hash][]Entry{},
		commits: map[plumbing.Hash]plumbing.Hash{},
	}
}

func (r *Repository) store(kind plumbing.ObjectType, content []byte) plumbing.Hash {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	if _, err := o.Write(content); err != nil {
		panic(err)
	}
	id, err := r.storage.SetEncodedObject(o)
	if err != nil {
		panic(err)
	}
	return id
}

// Blob stores the content of a file.
func (r *Repository) Blob(content string) plumbing.Hash {
	return r.store(plumbing.BlobObject, []byte(content))
}

// Tree stores a directory with its entries as they are: unsorted, doubled, with any name.
func (r *Repository) Tree(entries ...Entry) plumbing.Hash {
	var buf bytes.Buffer
	for _, e := range entries {
		buf.WriteString(e.Mode + " " + e.Name + "\x00")
		buf.Write(e.ID[:])
	}
	id := r.store(plumbing.TreeObject, buf.Bytes())
	r.trees[id] = entries
	return id
}

// Commit stores a commit.
func (r *Repository) Commit(tree plumbing.Hash, parents ...plumbing.Hash) plumbing.Hash {
	var buf strings.Builder
	fmt.Fprintf(&buf, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&buf, "parent %s\n", p)
	}
	buf.WriteString("author T <t@example.com> 1700000000 +0000\ncommitter T <t@example.com> 1700000000 +0000\n\nm\n")
	id := r.store(plumbing.CommitObject, []byte(buf.String()))
	r.commits[id], r.parents[id] = tree, parents
	return id
}

// Tag stores an annotated tag of an object of a kind: commit, tree, blob, tag.
func (r *Repository) Tag(name, kind string, object plumbing.Hash) plumbing.Hash {
	id := r.store(plumbing.TagObject, fmt.Appendf(nil,
		"object %s\ntype %s\ntag %s\ntagger T <t@example.com> 1700000000 +0000\n\nm\n", object, kind, name))
	r.commits[id] = object
	return id
}

// reachable lists the objects that belong to ids, with or without the history.
func (r *Repository) reachable(ids []plumbing.Hash, history bool) []plumbing.Hash {
	seen := map[plumbing.Hash]bool{}
	var all []plumbing.Hash
	var visit func(id plumbing.Hash)
	visit = func(id plumbing.Hash) {
		if _, err := r.storage.EncodedObject(plumbing.AnyObject, id); err != nil || seen[id] {
			return
		}
		seen[id] = true
		all = append(all, id)
		if next, ok := r.commits[id]; ok {
			visit(next)
		}
		for _, e := range r.trees[id] {
			if e.Mode != Submodule {
				visit(e.ID)
			}
		}
		if history {
			for _, p := range r.parents[id] {
				visit(p)
			}
		}
	}
	for _, id := range ids {
		visit(id)
	}
	return all
}

// Pack writes the objects that belong to ids as a pack.
func (r *Repository) Pack(w io.Writer, ids []plumbing.Hash, history, byName bool) error {
	const window = 10
	_, err := packfile.NewEncoder(w, r.storage, byName).Encode(r.reachable(ids, history), window)
	return err
}

// cut lists the commits among ids, through tags, that have parents.
func (r *Repository) cut(ids []plumbing.Hash) []plumbing.Hash {
	var cut []plumbing.Hash
	for _, id := range ids {
		for r.commits[r.commits[id]] != plumbing.ZeroHash {
			id = r.commits[id]
		}
		if len(r.parents[id]) > 0 {
			cut = append(cut, id)
		}
	}
	return cut
}
