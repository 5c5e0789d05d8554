package gitsource

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

const (
	headName     = "HEAD"
	branchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
)

// advertisement is what a server says about its repository.
type advertisement struct {
	// references are all references by their full name, HEAD among them.
	references map[string]plumbing.Hash
	// head is the full name of the default branch; empty when the server does not tell.
	head string
	// capabilities are the words of the protocol that the server knows.
	capabilities map[string]bool
}

// parseAdvertisement reads the list of references of a server.
func parseAdvertisement(r io.Reader) (*advertisement, error) {
	a := &advertisement{references: map[string]plumbing.Hash{}, capabilities: map[string]bool{}}
	lines := pktline.NewScanner(r)
	first, ended := true, false
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		switch {
		case line == "" && !first:
			ended = true
		case line == "", strings.HasPrefix(line, "#"), line == "version 1", strings.HasPrefix(line, "shallow "):
			continue
		}
		if ended {
			break
		}
		if first {
			first = false
			var words string
			line, words, _ = strings.Cut(line, "\x00")
			a.addCapabilities(words)
		}
		if err := a.addReference(line); err != nil {
			return nil, err
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, unlessSpoken(lines.Err())
	case !ended && !first:
		return nil, io.ErrUnexpectedEOF
	case len(a.references) == 0:
		return nil, errors.New("the repository is empty")
	}
	return a, nil
}

// unlessSpoken keeps the errors that a server or the network gives, and names the others.
func unlessSpoken(err error) error {
	if errors.Is(err, pktline.ErrInvalidPktLen) {
		return errors.New("the server does not speak the protocol of git")
	}
	return err
}

func (a *advertisement) addCapabilities(words string) {
	for _, word := range strings.Fields(words) {
		a.capabilities[word] = true
		if target, ok := strings.CutPrefix(word, "symref=HEAD:"); ok {
			a.head = target
		}
	}
}

func (a *advertisement) addReference(line string) error {
	id, name, ok := strings.Cut(line, " ")
	if len(id) == 64 && isHex(id) {
		return errors.New("the repository names its objects by SHA-256, which is not supported")
	}
	if !ok || len(id) != 40 || !isHex(id) {
		return errors.New("the server does not speak the protocol of git")
	}
	// "name^{}" tells what an annotated tag points to; the tag itself tells it, too. An empty repository has no names.
	if strings.HasSuffix(name, "^{}") {
		return nil
	}
	a.references[name] = plumbing.NewHash(id)
	return nil
}

// wanted is what a revision means in a repository.
type wanted struct {
	// id is the commit, or the tag that points to it.
	id plumbing.Hash
	// reference is the full name; empty for a commit id.
	reference string
	// advertised tells that the server names id itself, so that it hands it out.
	advertised bool
}

// resolve finds what revision means. A full commit id always means that commit, whatever references are called.
func (a *advertisement) resolve(revision string) (wanted, error) {
	if len(revision) == 40 && isHex(revision) {
		w := wanted{id: plumbing.NewHash(strings.ToLower(revision))}
		for _, id := range a.references {
			w.advertised = w.advertised || id == w.id
		}
		return w, nil
	}
	if revision == "" || revision == headName {
		return a.resolveHead()
	}
	names := []string{branchPrefix + revision, tagPrefix + revision}
	if strings.HasPrefix(revision, "refs/") {
		names = []string{revision}
	}
	for _, name := range names {
		if id, ok := a.references[name]; ok {
			return wanted{id: id, reference: name, advertised: true}, nil
		}
	}
	if len(revision) >= 7 && len(revision) < 40 && isHex(revision) {
		return wanted{}, fmt.Errorf("there is no branch or tag %q; a commit id must be written in full, with 40 digits", revision)
	}
	return wanted{}, fmt.Errorf("there is no branch or tag %q", revision)
}

// resolveHead finds the default branch.
func (a *advertisement) resolveHead() (wanted, error) {
	id, ok := a.references[headName]
	if !ok {
		return wanted{}, errors.New("the repository has no default branch: set spec.source.git.revision")
	}
	for _, name := range []string{a.head, branchPrefix + "main", branchPrefix + "master"} {
		if a.references[name] == id && strings.HasPrefix(name, branchPrefix) {
			return wanted{id: id, reference: name, advertised: true}, nil
		}
	}
	return wanted{id: id, advertised: true}, nil
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}
