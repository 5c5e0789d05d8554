package gitsource

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

const (
	// maxDepth bounds how deep directories lie inside each other; each level costs a file descriptor.
	maxDepth = 128
	// maxPath bounds the path of a file inside the repository. Unit: bytes.
	maxPath = 3072
	// maxLink bounds the target of a symbolic link, as Linux does. Unit: bytes.
	maxLink = 4095

	indexName = ".git/index"
)

// checkout writes the files of a commit. What it makes is new in every case: a name that is there already is an error,
// and no link is followed.
type checkout struct {
	ctx     context.Context // that of the one call that uses the checkout
	objects *pack
	budget  *budget
	depth   int
	entries []*index.Entry
}

// directory fills root, which is at in the repository, with what tree says.
func (c *checkout) directory(root *os.Root, at string, tree plumbing.Hash) error {
	if c.depth++; c.depth > maxDepth {
		return fmt.Errorf("%w: its directories lie more than %d deep", errTooLarge, maxDepth)
	}
	defer func() { c.depth-- }()
	content, err := c.objects.read(tree, plumbing.TreeObject)
	if err != nil {
		return err
	}
	for len(content) > 0 {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		var e treeEntry
		if e, content, err = nextEntry(content); err != nil {
			return err
		}
		if err := c.entry(root, path.Join(at, e.name), e); err != nil {
			return err
		}
	}
	return nil
}

// entry makes one name of a directory.
func (c *checkout) entry(root *os.Root, at string, e treeEntry) error {
	if err := checkName(e.name); err != nil {
		return err
	}
	if len(at) > maxPath {
		return fmt.Errorf("%w: a path has more than %d bytes", errTooLarge, maxPath)
	}
	if err := c.budget.takeFile(); err != nil {
		return err
	}
	var info fs.FileInfo
	var err error
	switch e.mode {
	case filemode.Dir:
		err = c.subdirectory(root, at, e)
	case filemode.Symlink:
		info, err = c.link(root, e)
	case filemode.Submodule: // an empty directory, as git leaves it
		err = root.Mkdir(e.name, 0o755)
	default:
		info, err = c.file(root, e)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the repository holds %q twice, or two names that are one on this file system", printable(at))
	}
	if err != nil {
		return err
	}
	if e.mode != filemode.Dir {
		c.entries = append(c.entries, indexEntry(at, e, info))
	}
	return nil
}

func (c *checkout) subdirectory(root *os.Root, at string, e treeEntry) error {
	if err := root.Mkdir(e.name, 0o755); err != nil {
		return err
	}
	below, err := root.OpenRoot(e.name)
	if err != nil {
		return fmt.Errorf("opening a directory: %w", err)
	}
	return errors.Join(c.directory(below, at, e.id), below.Close())
}

// link makes a symbolic link as it is, wherever it leads. Nothing here follows it.
func (c *checkout) link(root *os.Root, e treeEntry) (fs.FileInfo, error) {
	var target bytes.Buffer
	if err := c.objects.copyBlob(limited{&target, maxLink}, e.id); err != nil {
		return nil, err
	}
	if err := c.budget.takeBytes(int64(target.Len())); err != nil {
		return nil, err
	}
	if target.Len() == 0 || bytes.IndexByte(target.Bytes(), 0) >= 0 {
		return nil, fmt.Errorf("the repository is damaged: the link %q leads nowhere", printable(e.name))
	}
	if err := root.Symlink(target.String(), e.name); err != nil {
		return nil, err
	}
	return root.Lstat(e.name)
}

// limited fails when more is written than a link can hold.
type limited struct {
	*bytes.Buffer
	max int
}

func (l limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		return 0, fmt.Errorf("the repository is damaged: a link has more than %d bytes", l.max)
	}
	return l.Buffer.Write(p)
}

func (c *checkout) file(root *os.Root, e treeEntry) (fs.FileInfo, error) {
	mode := fs.FileMode(0o644)
	if e.mode == filemode.Executable {
		mode = 0o755
	}
	f, err := root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	err = c.objects.copyBlob(c.budget.writer(f), e.id)
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	return info, errors.Join(err, f.Close())
}

// indexEntry is what git's index says about a file; info is nil for a submodule.
func indexEntry(at string, e treeEntry, info fs.FileInfo) *index.Entry {
	entry := &index.Entry{Name: at, Hash: e.id, Mode: e.mode}
	if info == nil {
		return entry
	}
	entry.ModifiedAt = info.ModTime()
	entry.Size = uint32(info.Size()) // modulo 2^32, as git does
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		entry.CreatedAt = time.Unix(s.Ctim.Unix())
		entry.Dev, entry.Inode, entry.UID, entry.GID = uint32(s.Dev), uint32(s.Ino), s.Uid, s.Gid
	}
	return entry
}

// writeIndex writes git's index, so that git sees the files as those of the commit.
func (c *checkout) writeIndex(root *os.Root) error {
	f, err := root.OpenFile(indexName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	w := bufio.NewWriter(c.budget.writer(f))
	err = index.NewEncoder(w).Encode(&index.Index{Version: 2, Entries: c.entries})
	if err := errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	return nil
}
