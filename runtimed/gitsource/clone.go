package gitsource

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// maxTags bounds how many tags may point to each other.
const maxTags = 10

// clone checks source out into root, an empty directory, and returns the commit.
func clone(ctx context.Context, root *os.Root, source Source, b *budget) (commit string, err error) {
	if err := checkURL(source.URL); err != nil {
		return "", err
	}
	r := newRemote(source.URL)
	a, err := r.references(ctx)
	if err != nil {
		return "", err
	}
	want, err := a.resolve(source.Revision)
	if err != nil {
		return "", err
	}
	if err := makeLayout(root); err != nil {
		return "", err
	}
	file, err := root.OpenFile(incomingPack, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return "", fmt.Errorf("making the pack: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cut, err := receive(ctx, r, a, orderFor(a, want), b.writer(file))
	if line := (*pktline.ErrorLine)(nil); errors.As(err, &line) && !want.advertised {
		return "", fmt.Errorf("the server has no commit %s, or does not hand it out: %s", want.id, line.Text)
	}
	if err != nil {
		return "", err
	}
	objects, err := openPack(file, b)
	if err != nil {
		return "", err
	}
	id, tree, err := objects.commit(want)
	if err != nil {
		return "", err
	}
	if err := writeRepository(root, objects, facts{source: source, want: want, commit: id, cut: cut}, b); err != nil {
		return "", err
	}
	c := &checkout{ctx: ctx, objects: objects, budget: b}
	if err := c.directory(root, "", tree); err != nil {
		return "", err
	}
	if err := c.writeIndex(root); err != nil {
		return "", err
	}
	return id.String(), nil
}

// commit follows tags to their commit, and returns it and its tree.
func (p *pack) commit(want wanted) (commit, tree plumbing.Hash, err error) {
	id := want.id
	for range maxTags {
		o := p.byID[id]
		if o == nil && !want.advertised {
			return id, tree, fmt.Errorf("there is no commit %s on any branch or tag", id)
		}
		if o == nil || o.kind != plumbing.TagObject {
			break
		}
		tag, err := p.whole(o)
		if err != nil {
			return id, tree, err
		}
		if id, err = referred(tag, "object"); err != nil {
			return id, tree, err
		}
	}
	if o := p.byID[id]; o != nil && o.kind != plumbing.CommitObject {
		return id, tree, fmt.Errorf("the revision is a %s, not a commit", o.kind)
	}
	content, err := p.read(id, plumbing.CommitObject)
	if err != nil {
		return id, tree, err
	}
	tree, err = referred(content, "tree")
	return id, tree, err
}
