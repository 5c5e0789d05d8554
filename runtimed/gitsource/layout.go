package gitsource

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// incomingPack is what the server sends, before its name is known.
const incomingPack = ".git/objects/pack/incoming"

// facts are what is known about a checkout.
type facts struct {
	source Source
	want   wanted
	commit plumbing.Hash
	cut    []plumbing.Hash
}

// makeLayout makes the directories without which git sees no repository. There are no hooks among them.
func makeLayout(root *os.Root) error {
	for _, name := range []string{".git", ".git/refs", ".git/objects", ".git/objects/info", ".git/objects/pack"} {
		if err := root.Mkdir(name, 0o755); err != nil {
			return fmt.Errorf("laying out the repository: %w", err)
		}
	}
	return nil
}

// writeRepository writes the files of git around the pack.
func writeRepository(root *os.Root, objects *pack, f facts, b *budget) error {
	name := ".git/objects/pack/pack-" + plumbing.Hash(objects.index.PackfileChecksum).String()
	if err := root.Rename(incomingPack, name+".pack"); err != nil {
		return fmt.Errorf("naming the pack: %w", err)
	}
	if err := writePackIndex(root, name+".idx", objects.index, b); err != nil {
		return err
	}
	for path, text := range f.files() {
		if text == "" {
			continue
		}
		file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		_, err = file.WriteString(text)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}

func writePackIndex(root *os.Root, name string, index *idxfile.MemoryIndex, b *budget) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("writing the index of the pack: %w", err)
	}
	w := bufio.NewWriter(b.writer(file))
	_, err = idxfile.NewEncoder(w).Encode(index)
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		return fmt.Errorf("writing the index of the pack: %w", err)
	}
	return nil
}

// files are the small files of a repository by their path; an empty one is left out.
func (f facts) files() map[string]string {
	head := f.commit.String()
	branch, onBranch := strings.CutPrefix(f.want.reference, branchPrefix)
	onBranch = onBranch && safeReference(f.want.reference)
	var packed, config, shallow strings.Builder
	config.WriteString("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n")
	fmt.Fprintf(&config, "[remote \"origin\"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", quoted(f.source.URL))
	switch {
	case onBranch:
		head = "ref: " + f.want.reference
		fmt.Fprintf(&packed, "%s %s\n%s refs/remotes/origin/%s\n", f.commit, f.want.reference, f.commit, branch)
		fmt.Fprintf(&config, "[branch %s]\n\tremote = origin\n\tmerge = %s\n", quoted(branch), quoted(f.want.reference))
	case strings.HasPrefix(f.want.reference, tagPrefix) && safeReference(f.want.reference):
		fmt.Fprintf(&packed, "%s %s\n", f.want.id, f.want.reference)
	}
	for _, id := range f.cut {
		fmt.Fprintf(&shallow, "%s\n", id)
	}
	return map[string]string{
		".git/HEAD": head + "\n", ".git/config": config.String(), ".git/packed-refs": packed.String(), ".git/shallow": shallow.String(),
	}
}

// quoted writes a value for git's configuration. Control characters are not among what it is used for.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
