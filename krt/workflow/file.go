package workflow

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/lint"
)

// Read reads a file of manifests and checks it as "krt lint" does. It tells about warnings, and returns the documents that
// the file holds. Where something is wrong it returns an error that lists all of it.
func Read(ctx context.Context, f *cli.Factory, file string) ([]lint.Document, error) {
	documents, findings, err := lint.CheckFile(ctx, f.IO.In, file)
	if err != nil {
		return nil, err
	}
	called, _, err := lint.Calls(documents, nil) // what is in the cluster, the cluster checks
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, finding := range append(findings, called...) {
		if !finding.Warning {
			wrong = append(wrong, finding.String())
			continue
		}
		if _, err := fmt.Fprintln(f.IO.ErrOut, finding); err != nil {
			return nil, fmt.Errorf("writing a warning: %w", err)
		}
	}
	if len(wrong) > 0 {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s is not valid, and nothing was created:\n%s",
			lint.FileName(file), strings.Join(wrong, "\n"))}
	}
	if len(documents) == 0 {
		return nil, cli.Usagef("%s holds no manifest", lint.FileName(file))
	}
	return documents, nil
}

// readRuns returns the WorkflowRuns of a file that holds nothing else.
func readRuns(ctx context.Context, f *cli.Factory, file string) ([]*workflowsv1alpha1.WorkflowRun, error) {
	documents, err := Read(ctx, f, file)
	if err != nil {
		return nil, err
	}
	found := make([]*workflowsv1alpha1.WorkflowRun, 0, len(documents))
	for _, d := range documents {
		if gvk := d.Object.GroupVersionKind(); gvk != cli.KindWorkflowRun.GroupVersionKind() {
			return nil, cli.WithHint(cli.Usagef("%s: %s holds an object of kind %s, and only WorkflowRuns are created here", d.Place(), lint.FileName(file), gvk.Kind),
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
