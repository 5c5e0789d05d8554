package run

import (
	"context"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// execute does the work of the command.
func execute(ctx context.Context, o *options) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	o.request.namespace = namespace
	if o.request.file != "" {
		if o.request.script, err = readScript(ctx, o.factory.IO.In, o.request.file); err != nil {
			return err
		}
	}
	o.request.piped = isPiped(o.factory.IO.In)
	run, err := build(o.request)
	if err != nil {
		return err
	}
	for _, text := range o.misunderstandings() {
		fmt.Fprintln(o.factory.IO.ErrOut, "krt: "+text)
	}
	if o.dryRun == cli.DryRunClient {
		return o.printRun(run)
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	switch {
	case o.dryRun == cli.DryRunServer:
		if err := c.Create(ctx, run, client.DryRunAll, client.FieldOwner("krt")); err != nil {
			return createHint(err, run)
		}
		return o.printRun(run)
	case o.follow:
		return followRun(ctx, o, c, run)
	}
	if err := c.Create(ctx, run, client.FieldOwner("krt")); err != nil {
		return createHint(err, run)
	}
	if text := missingRuntime(ctx, c, run); text != "" {
		fmt.Fprintln(o.factory.IO.ErrOut, "krt: "+text)
	}
	return o.printRun(run)
}

// readScript reads up to one byte more than a script may have, so that build can tell that it is too long.
func readScript(ctx context.Context, in io.Reader, file string) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, cli.Usagef("reading the script: %w", err)
		}
		defer f.Close()
		in = f
	}
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(in, maxScript+1))
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done(): // ctrl-C while a person types the script
		return nil, ctx.Err()
	case r := <-done:
		if r.err != nil {
			return nil, cli.Usagef("reading the script: %w", r.err)
		}
		return r.data, nil
	}
}

// createHint says what to do about a refused Run.
func createHint(err error, run *corev1alpha1.Run) error {
	if apierrors.IsAlreadyExists(err) {
		return cli.WithHint(fmt.Errorf("there is a Run %q in namespace %q already", run.Name, run.Namespace),
			"choose another NAME, or leave it out to have one made; `kubectl delete run %s -n %s` removes the old one, and --follow --rm does so after its end",
			run.Name, run.Namespace)
	}
	if refusal := workspaceRefusal(err); refusal != nil {
		return refusal
	}
	return fmt.Errorf("creating the Run: %w", err)
}

// printRun prints the Run as asked for: its name alone where nothing was asked, all of it after a dry run.
func (o *options) printRun(run *corev1alpha1.Run) error {
	format := *o.print.OutputFormat
	template := o.print.TemplatePrinterFlags.TemplateArgument
	if format == "" && *template == "" {
		if o.dryRun == cli.DryRunNone {
			_, err := fmt.Fprintln(o.factory.IO.Out, run.Name)
			return err
		}
		*o.print.OutputFormat = "yaml"
	}
	printer, err := cli.Printer(o.print)
	if err != nil {
		return err
	}
	object, err := printable(run)
	if err != nil {
		return err
	}
	return printer.PrintObj(object, o.factory.IO.Out)
}

// printable leaves the status out of a Run that does not exist yet: it is not for the author of a manifest to fill in.
func printable(run *corev1alpha1.Run) (runtime.Object, error) {
	run.SetGroupVersionKind(corev1alpha1.GroupVersion.WithKind("Run"))
	if run.Status.Phase != "" {
		return run, nil
	}
	return cli.WithoutStatus(run)
}

// missingRuntime returns a warning when the Runtime does not exist; that the Run waits for it may be intended.
func missingRuntime(ctx context.Context, c client.Reader, run *corev1alpha1.Run) string {
	err := c.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.Runtime}, &corev1alpha1.Runtime{})
	if !apierrors.IsNotFound(err) {
		return "" // there, or not for this person to know
	}
	return fmt.Sprintf("warning: there is no Runtime %q in namespace %q; the Run waits until there is one%s",
		run.Spec.Runtime, run.Namespace, runtimesThereAre(ctx, c, run.Namespace))
}

// runtimesThereAre lists the Runtimes of a namespace, ready to be appended to a sentence.
func runtimesThereAre(ctx context.Context, c client.Reader, namespace string) string {
	var list corev1alpha1.RuntimeList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.Limit(10)); err != nil {
		return ""
	}
	if len(list.Items) == 0 {
		return " (the namespace has no Runtime at all)"
	}
	text := ""
	for _, r := range list.Items {
		text += ", " + r.Name
	}
	if list.Continue != "" {
		text += ", …"
	}
	return " (there is: " + text[2:] + ")"
}
