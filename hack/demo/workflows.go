package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// workflow is one example WorkflowRun and what must come of it.
type workflow struct {
	name, file string
	exitCode   int
	// phases holds the phase of the whole under "", of jobs under "job" and of steps under "job/step".
	phases map[string]string
	// outputs are those of one job.
	outputs map[string]corev1alpha1.OutputValue
	job     string
	// artifacts are those that a job left, "job/name".
	artifacts []string
	// lines must be in the logs, one for each step that says something.
	lines []string
}

func demoWorkflows() []workflow {
	return []workflow{
		{
			name: "ci", file: "examples/ci.yaml",
			phases: map[string]string{
				"": "Succeeded", "build": "Succeeded", "build/checkout": "Succeeded", "build/test": "Succeeded", "build/package": "Succeeded",
				"deploy": "Succeeded", "deploy/verify-artifact": "Succeeded",
			},
			job: "deploy", outputs: map[string]corev1alpha1.OutputValue{"url": "https://hello.example/passed"},
			artifacts: []string{"build/dist.tgz"},
			lines:     []string{"checked out app.py", "packed dist.tgz", "src/app.py", "artifact verified, tests passed"},
		},
		{
			name: "failing", file: "examples/failing.yaml", exitCode: 1,
			phases: map[string]string{
				"": "Failed", "build": "Failed", "build/compile": "Succeeded", "build/test": "Failed", "build/package": "Pending",
				"deploy": "Skipped", "deploy/announce": "Pending", "docs": "Succeeded", "docs/render": "Succeeded", "docs/check": "Succeeded",
			},
			lines: []string{"1 of 2 tests failed: greeting is not polite", "rendered 12 pages", "no broken links"},
		},
	}
}

// runWorkflows runs each example as a person would, with krt, and compares what came of it.
func (d *demo) runWorkflows(ctx context.Context) error {
	for _, w := range demoWorkflows() {
		code, _, err := d.show(ctx, "workflow", "run", "-f", w.file, "--name", w.name, "--follow")
		if err != nil {
			return err
		}
		if code != w.exitCode {
			return fmt.Errorf("workflow %s: exit code %d, want %d", w.name, code, w.exitCode)
		}
		run := &workflowsv1alpha1.WorkflowRun{}
		if err := d.client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: w.name}, run); err != nil {
			return fmt.Errorf("reading workflow run %s: %w", w.name, err)
		}
		if diff := cmp.Diff(w.phases, phases(&run.Status)); diff != "" {
			return fmt.Errorf("workflow run %s: phases (-want +got):\n%s", w.name, diff)
		}
		if diff := cmp.Diff(w.outputs, run.Status.Jobs[w.job].Outputs); diff != "" {
			return fmt.Errorf("workflow run %s: outputs of job %s (-want +got):\n%s", w.name, w.job, diff)
		}
		_, logs, err := d.show(ctx, "logs", "workflowrun", w.name)
		if err != nil {
			return err
		}
		for _, line := range w.lines {
			if !strings.Contains(logs, line+"\n") {
				return fmt.Errorf("workflow run %s: the logs do not hold the line %q", w.name, line)
			}
		}
		if _, _, err := d.show(ctx, "describe", "workflowrun", w.name); err != nil {
			return err
		}
		if err := d.fetch(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// fetch downloads the artifacts of a WorkflowRun as a person would; krt checks their digests.
func (d *demo) fetch(ctx context.Context, w workflow) error {
	if len(w.artifacts) == 0 {
		return nil
	}
	code, listed, err := d.show(ctx, "artifacts", "list", "workflowrun", w.name)
	if err != nil || code != 0 {
		return errors.Join(err, fmt.Errorf("listing the artifacts of workflow run %s: exit code %d", w.name, code))
	}
	dir, err := os.MkdirTemp("", "kruntimes-demo-")
	if err != nil {
		return fmt.Errorf("making a directory for artifacts: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, artifact := range w.artifacts {
		if !strings.Contains(listed, artifact) {
			return fmt.Errorf("workflow run %s: artifact %s is not listed", w.name, artifact)
		}
		code, _, err := d.show(ctx, "artifacts", "download", "workflowrun", w.name, artifact, "-d", dir)
		if err != nil || code != 0 {
			return errors.Join(err, fmt.Errorf("downloading artifact %s of workflow run %s: exit code %d", artifact, w.name, code))
		}
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(artifact)))
		if err != nil {
			return fmt.Errorf("looking for artifact %s: %w", artifact, err)
		}
		say("%s has %d bytes", artifact, info.Size())
	}
	return nil
}

// show runs krt under a title, and returns its exit code and all that it printed.
func (d *demo) show(ctx context.Context, args ...string) (int, string, error) {
	title("krt %s", strings.Join(args, " "))
	var printed bytes.Buffer
	both := io.MultiWriter(os.Stdout, &printed)
	code, err := d.execTo(ctx, both, both, args...)
	if err != nil {
		return 0, "", fmt.Errorf("running krt %s: %w", strings.Join(args, " "), err)
	}
	return code, printed.String(), nil
}

// phases flattens the phases of a status.
func phases(status *workflowsv1alpha1.WorkflowRunStatus) map[string]string {
	out := map[string]string{"": string(status.Phase)}
	for name, job := range status.Jobs {
		out[name] = string(job.Phase)
		for _, step := range job.Steps {
			out[name+"/"+step.Name] = string(step.Phase)
		}
	}
	return out
}
