package workflow

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/lint"
)

// maxFile bounds what is read. Unit: bytes.
const maxFile = 16 << 20

// ReadFile reads a file of manifests, or standard input for "-".
func ReadFile(ctx context.Context, in io.Reader, file string) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, cli.Usagef("reading the manifests: %w", err)
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
		data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done(): // ctrl-C while a person types
		return nil, ctx.Err()
	case r := <-done:
		switch {
		case r.err != nil:
			return nil, cli.Usagef("reading the manifests: %w", r.err)
		case len(r.data) > maxFile:
			return nil, cli.Usagef("%s has more than %d bytes", file, maxFile)
		}
		return r.data, nil
	}
}

// FileName is how findings call a file.
func FileName(file string) string {
	if file == "-" {
		return "<stdin>"
	}
	return file
}

// Parse checks the documents of a file, tells about warnings, and returns the documents that it holds. Where something is
// wrong it returns an error that lists all of it.
func Parse(ctx context.Context, f *cli.Factory, file string, content []byte) ([]lint.Document, error) {
	documents, findings := lint.Read(FileName(file), content)
	for _, d := range documents {
		found, err := lint.Check(ctx, d)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	var wrong []string
	for _, finding := range lint.Sort(findings) {
		if finding.Warning {
			fmt.Fprintln(f.IO.ErrOut, finding)
			continue
		}
		wrong = append(wrong, finding.String())
	}
	if len(wrong) > 0 {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s is not valid, and nothing was created:\n%s",
			FileName(file), strings.Join(wrong, "\n"))}
	}
	if len(documents) == 0 {
		return nil, cli.Usagef("%s holds no manifest", FileName(file))
	}
	return documents, nil
}

// parse returns the WorkflowRuns of a file that holds nothing else.
func parse(ctx context.Context, f *cli.Factory, file string, content []byte) ([]*workflowsv1alpha1.WorkflowRun, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, cli.Usagef("%s is empty", FileName(file))
	}
	documents, err := Parse(ctx, f, file, content)
	if err != nil {
		return nil, err
	}
	found := make([]*workflowsv1alpha1.WorkflowRun, 0, len(documents))
	for _, d := range documents {
		if gvk := d.Object.GroupVersionKind(); gvk != cli.KindWorkflowRun.GroupVersionKind() {
			return nil, cli.WithHint(cli.Usagef("%s: %s holds a %s, and only WorkflowRuns are created here", d.Place(), FileName(file), gvk.Kind),
				"apply the rest with `kubectl apply`; `%s dev run` does both on a dev cluster", f.Name)
		}
		run, err := FromDocument(d)
		if err != nil {
			return nil, err
		}
		found = append(found, run)
	}
	return found, nil
}

// FromDocument makes a WorkflowRun of a document that holds one.
func FromDocument(d lint.Document) (*workflowsv1alpha1.WorkflowRun, error) {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, run); err != nil {
		return nil, cli.Usagef("%s: %w", d.Place(), err)
	}
	return run, nil
}
