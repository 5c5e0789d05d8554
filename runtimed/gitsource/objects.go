package gitsource

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// header returns the value of a line "key value" at the beginning of a commit or tag.
func header(content []byte, key string) (string, error) {
	head, _, _ := bytes.Cut(content, []byte("\n\n"))
	for line := range strings.Lines(string(head)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return strings.TrimSuffix(value, "\n"), nil
		}
	}
	return "", fmt.Errorf("the repository is damaged: an object has no %s", key)
}

// referred returns the object that a commit or tag names under key.
func referred(content []byte, key string) (plumbing.Hash, error) {
	text, err := header(content, key)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if len(text) != 40 || !isHex(text) {
		return plumbing.ZeroHash, fmt.Errorf("the repository is damaged: an object has no valid %s", key)
	}
	return plumbing.NewHash(text), nil
}

// treeEntry is a name in a directory.
type treeEntry struct {
	name string
	mode filemode.FileMode
	id   plumbing.Hash
}

var errDamagedTree = errors.New("the repository is damaged: a directory is not readable")

// nextEntry reads the first entry of a tree and returns the rest.
func nextEntry(tree []byte) (treeEntry, []byte, error) {
	head, rest, ok := bytes.Cut(tree, []byte{0})
	mode, name, split := strings.Cut(string(head), " ")
	if !ok || !split || len(rest) < len(plumbing.ZeroHash) {
		return treeEntry{}, nil, errDamagedTree
	}
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return treeEntry{}, nil, errDamagedTree
	}
	e := treeEntry{name: name}
	if e.mode, ok = kindOf(bits); !ok {
		return treeEntry{}, nil, errDamagedTree
	}
	copy(e.id[:], rest)
	return e, rest[len(e.id):], nil
}

// kindOf tells what the mode of a tree entry means. Of the permissions only one counts: may the owner execute it.
func kindOf(bits uint64) (filemode.FileMode, bool) {
	const kindBits, ownerExecutes = 0o170000, 0o100
	switch bits & kindBits {
	case uint64(filemode.Dir):
		return filemode.Dir, true
	case uint64(filemode.Symlink):
		return filemode.Symlink, true
	case uint64(filemode.Submodule):
		return filemode.Submodule, true
	case 0o100000:
		if bits&ownerExecutes != 0 {
			return filemode.Executable, true
		}
		return filemode.Regular, true
	default:
		return 0, false
	}
}
