package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// chunk is how many objects are read with one request.
const chunk = 500

// execute does the work of the command.
func execute(ctx context.Context, o *options) error {
	namespace := ""
	if !o.allNamespaces {
		var err error
		if namespace, err = o.factory.Namespace(); err != nil {
			return err
		}
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	g := &getter{options: o, client: c, namespace: namespace}
	if o.watch {
		return g.watchAll(ctx)
	}
	found, err := g.fetch(ctx)
	return errors.Join(err, g.printAll(found))
}

// getter reads and prints. It handles objects as the API server sends them, so that -o shows fields that this version
// of krt does not know.
type getter struct {
	*options
	client    client.WithWatch
	namespace string
}

// group is what was found of one kind.
type group struct {
	kind    cli.Kind
	items   []unstructured.Unstructured
	version string
}

// fetch reads all targets. What could not be read is in the error; the rest is returned all the same.
func (g *getter) fetch(ctx context.Context) ([]group, error) {
	var groups []group
	var errs []error
	for _, target := range g.targets {
		items, version, err := g.read(ctx, target)
		if err != nil {
			errs = append(errs, err)
			if cli.IsUnreachable(err) || ctx.Err() != nil {
				break
			}
			continue
		}
		if n := len(groups); n > 0 && groups[n-1].kind == target.Kind {
			groups[n-1].items = append(groups[n-1].items, items...)
			continue
		}
		groups = append(groups, group{kind: target.Kind, items: items, version: version})
	}
	return groups, errors.Join(errs...)
}

// read reads one target: an object, or all of its kind, and the version at which a watch can go on.
func (g *getter) read(ctx context.Context, target cli.Target) ([]unstructured.Unstructured, string, error) {
	gvk := target.Kind.GroupVersionKind()
	if target.Name != "" {
		var object unstructured.Unstructured
		object.SetGroupVersionKind(gvk)
		err := g.client.Get(ctx, client.ObjectKey{Namespace: g.namespace, Name: target.Name}, &object)
		err = cli.Missing(err, target.Kind, g.namespace, target.Name)
		return []unstructured.Unstructured{object}, object.GetResourceVersion(), err
	}
	var items []unstructured.Unstructured
	opts := g.listOptions(target)
	for {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := g.client.List(ctx, &list, opts); err != nil {
			return nil, "", fmt.Errorf("listing %s: %w", plural(target.Kind), err)
		}
		items = append(items, list.Items...)
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			slices.SortStableFunc(items, older)
			if g.order != nil {
				slices.SortStableFunc(items, g.order.compare)
			}
			return items, list.GetResourceVersion(), nil
		}
	}
}

// listOptions are the selectors of the command line; validate has parsed them before.
func (g *getter) listOptions(target cli.Target) *client.ListOptions {
	opts := &client.ListOptions{Namespace: g.namespace, Limit: chunk}
	if g.selector != "" {
		opts.LabelSelector, _ = labels.Parse(g.selector)
	}
	if g.fieldSelector != "" {
		opts.FieldSelector, _ = fields.ParseSelector(g.fieldSelector)
	}
	if target.Name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", target.Name)
	}
	return opts
}

// older orders by creation, then by namespace and name, so that the newest is next to the prompt.
func older(a, b unstructured.Unstructured) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// printAll prints what was found in the form that was asked for.
func (g *getter) printAll(groups []group) error {
	if !g.table() {
		return g.printObjects(groups)
	}
	shown := 0
	for _, group := range groups {
		if len(group.items) == 0 {
			g.tellEmpty(group.kind)
			continue
		}
		if shown++; shown > 1 {
			if _, err := fmt.Fprintln(g.factory.IO.Out); err != nil {
				return &writeError{err}
			}
		}
		if err := g.printTable(group); err != nil {
			return err
		}
	}
	return nil
}

func (g *getter) printTable(group group) error {
	out := cli.NewTable(g.factory.IO.Out)
	if !g.noHeaders {
		cli.Row(out, g.layout().header(group.kind)...)
	}
	for _, item := range group.items {
		if err := g.printRow(out, group.kind, item, false); err != nil {
			return err
		}
	}
	return flush(out)
}

// writeError means that what was found could not be written here, on the side of krt.
type writeError struct{ err error }

func (e *writeError) Error() string { return "writing the output: " + e.err.Error() }

// Unwrap returns the writer's error.
func (e *writeError) Unwrap() error { return e.err }

// flush writes what a table has gathered; the table keeps the errors of its rows until then.
func flush(table interface{ Flush() error }) error {
	if err := table.Flush(); err != nil {
		return &writeError{err}
	}
	return nil
}

func (g *getter) printRow(out io.Writer, kind cli.Kind, item unstructured.Unstructured, deleted bool) error {
	object := typed(kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, object); err != nil {
		return fmt.Errorf("understanding %s %s: %w", kind, item.GetName(), err)
	}
	l := g.layout()
	l.deleted = deleted
	l.row(out, object, g.factory.Now())
	return nil
}

func typed(kind cli.Kind) any {
	switch kind {
	case cli.KindRuntime:
		return &corev1alpha1.Runtime{}
	case cli.KindWorkflowRun:
		return &workflowsv1alpha1.WorkflowRun{}
	case cli.KindWorkflow:
		return &workflowsv1alpha1.Workflow{}
	case cli.KindAction:
		return &workflowsv1alpha1.Action{}
	case cli.KindWorkspace:
		return &workspacesv1alpha1.PersistentWorkspace{}
	}
	return &corev1alpha1.Run{}
}

// printObjects prints the object alone where one was named, else a list.
func (g *getter) printObjects(groups []group) error {
	printer, err := cli.Printer(g.print, "wide")
	if err != nil {
		return err
	}
	if len(g.targets) == 1 && g.targets[0].Name != "" {
		if len(groups) == 0 {
			return nil // the error says why
		}
		return g.printObject(printer, &groups[0].items[0])
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
	}}
	for _, group := range groups {
		list.Items = append(list.Items, group.items...)
	}
	return g.printObject(printer, list)
}

// printObject prints an object as it is. What the printer could not make of it is told from what could not be written.
func (g *getter) printObject(printer printers.ResourcePrinter, object runtime.Object) error {
	out := &watchedWriter{Writer: g.factory.IO.Out}
	err := printer.PrintObj(object, out)
	if out.err != nil {
		return &writeError{out.err}
	}
	return err
}

// watchedWriter remembers the first error of the writer.
type watchedWriter struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (w *watchedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// tellEmpty says that there is nothing, and where nothing was found.
func (g *getter) tellEmpty(kind cli.Kind) {
	where := "in any namespace"
	if !g.allNamespaces {
		where = fmt.Sprintf("in namespace %q", g.namespace)
	}
	what := "There are no " + plural(kind)
	if g.selector != "" || g.fieldSelector != "" {
		what = "No " + string(kind) + " matches"
	}
	fmt.Fprintf(g.factory.IO.ErrOut, "%s %s.\n", what, where)
	if kind == cli.KindRuntime && !g.allNamespaces && g.selector == "" && g.fieldSelector == "" {
		fmt.Fprintf(g.factory.IO.ErrOut, "hint: a Runtime is made from a manifest: `kubectl apply -f examples/runtimes.yaml`; -A shows those of all namespaces\n")
	}
}

func plural(kind cli.Kind) string { return string(kind) + "s" }
