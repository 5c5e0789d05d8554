package get

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"kruntimes.io/kruntimes/krt/cli"
)

// rewatchWait is the pause before a watch that broke is made again.
const rewatchWait = time.Second

// watchAll prints what there is, and then every change, until a person has seen enough.
func (g *getter) watchAll(ctx context.Context) error {
	found, err := g.fetch(ctx)
	if err != nil {
		return err
	}
	show, err := g.liner(g.targets[0].Kind)
	if err != nil {
		return err
	}
	for _, item := range found[0].items {
		if err := show(item, false); err != nil {
			return err
		}
	}
	version := found[0].version
	for {
		version, err = g.watchOnce(ctx, version, show)
		var written *writeError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &written):
			return err
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			version = "" // the server begins with what there is now
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return fmt.Errorf("watching %s: %w", plural(g.targets[0].Kind), err)
		case err != nil:
			fmt.Fprintf(g.factory.IO.ErrOut, "krt: the watch broke, trying again: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rewatchWait):
		}
	}
}

// shower prints one object, or that it was deleted.
type shower func(object unstructured.Unstructured, deleted bool) error

// liner returns the function that prints one object. A table aligns the first lines with those that come later.
func (g *getter) liner(kind cli.Kind) (shower, error) {
	if !g.table() {
		printer, err := cli.Printer(g.print, "wide")
		if err != nil {
			return nil, err
		}
		return func(u unstructured.Unstructured, _ bool) error { return g.printObject(printer, &u) }, nil
	}
	out := cli.NewTable(g.factory.IO.Out)
	if !g.noHeaders {
		cli.Row(out, g.layout().header(kind)...)
	}
	return func(u unstructured.Unstructured, deleted bool) error {
		if err := g.printRow(out, kind, u, deleted); err != nil {
			return err
		}
		return flush(out)
	}, nil
}

// watchOnce prints changes until the watch breaks, and returns the version seen last.
func (g *getter) watchOnce(ctx context.Context, version string, show shower) (string, error) {
	target := g.targets[0]
	opts := g.listOptions(target)
	opts.Limit = 0
	opts.Raw = &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
	list := &unstructured.UnstructuredList{}
	gvk := target.Kind.GroupVersionKind()
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	w, err := g.client.Watch(ctx, list, opts)
	if err != nil {
		return version, err
	}
	defer w.Stop()
	for {
		var event watch.Event
		open := false
		select {
		case <-ctx.Done():
		case event, open = <-w.ResultChan():
		}
		if !open {
			return version, nil
		}
		if event.Type == watch.Error {
			return version, apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		version = object.GetResourceVersion()
		if event.Type == watch.Bookmark {
			continue
		}
		if err := show(*object, event.Type == watch.Deleted); err != nil {
			return version, err
		}
	}
}
