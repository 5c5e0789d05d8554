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
)

// workflow is one example WorkflowRun and what must come of it.
type workflow struct {
	name string
	// args are those of krt that create it, but for its name.
	args     []string
	exitCode int
	// phases holds the phase of the whole under "", of jobs under "job", and of steps under "job/step". Below a job that
	// calls a Workflow stand the jobs of that, below a step that calls an Action the steps of that.
	phases map[string]string
	// outputs are those of the whole as ".name", and of jobs and of calls of Actions as "job.name" and "job/step.name".
	outputs map[string]string
	// artifacts are those that a job left, "job/name".
	artifacts []string
	// lines must be in the logs, one for each step that says something.
	lines []string
}

func demoWorkflows() []workflow {
	return []workflow{
		{
			name: "ci", args: []string{"run", "-f", "examples/ci.yaml"},
			phases: map[string]string{
				"": "Succeeded", "build": "Succeeded", "build/package": "Succeeded", "build/package/checkout": "Succeeded",
				"build/package/test": "Succeeded", "build/package/package": "Succeeded",
				"deploy": "Succeeded", "deploy/verify": "Succeeded", "deploy/verify/unpack": "Succeeded", "deploy/verify/try": "Succeeded",
				"deploy/announce": "Succeeded",
			},
			outputs: map[string]string{
				"build.tests": "passed", "build/package.tests": "passed", "deploy/verify.says": "good morning", "deploy.url": "https://hello.example/passed",
			},
			artifacts: []string{"build/dist.tgz"},
			lines: []string{
				"checked out src/greet.sh src/greeting.txt", "packed dist.tgz", "src/greet.sh", "archive verified, it says: good morning",
				"deploying, tests passed: good morning",
			},
		},
		{
			name: "failing", args: []string{"run", "-f", "examples/failing.yaml"}, exitCode: 1,
			phases: map[string]string{
				"": "Failed", "build": "Failed", "build/compile": "Succeeded", "build/test": "Failed", "build/package": "Pending",
				"deploy": "Skipped", "deploy/announce": "Pending", "docs": "Succeeded", "docs/render": "Succeeded", "docs/check": "Succeeded",
			},
			outputs: map[string]string{},
			lines:   []string{"1 of 2 tests failed: greeting is not polite", "rendered 12 pages", "no broken links"},
		},
		{
			name: "nightly", args: []string{"trigger", "build", "--input", "archive=nightly", "--input", `greeting="$HOME" and $(id)`},
			phases: map[string]string{
				"": "Succeeded", "package": "Succeeded", "package/checkout": "Succeeded", "package/test": "Succeeded", "package/package": "Succeeded",
			},
			outputs:   map[string]string{".tests": "passed", "package.tests": "passed"},
			artifacts: []string{"package/nightly.tgz"},
			lines:     []string{"packed nightly.tgz"},
		},
	}
}

// runWorkflows runs each example as a person would, with krt, and compares what came of it.
func (d *demo) runWorkflows(ctx context.Context) error {
	for _, w := range demoWorkflows() {
		code, _, err := d.show(ctx, append(append([]string{"workflow"}, w.args...), "--name", w.name, "--follow")...)
		if err != nil {
			return err
		}
		if code != w.exitCode {
			return fmt.Errorf("workflow %s: exit code %d, want %d", w.name, code, w.exitCode)
		}
		if err := d.compare(ctx, w); err != nil {
			return err
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

// compare checks phases and outputs of a WorkflowRun, and of all that it calls.
func (d *demo) compare(ctx context.Context, w workflow) error {
	got := result{phases: map[string]string{}, outputs: map[string]string{}}
	if err := d.gather(ctx, w.name, "", &got); err != nil {
		return err
	}
	if diff := cmp.Diff(w.phases, got.phases); diff != "" {
		return fmt.Errorf("workflow run %s: phases (-want +got):\n%s", w.name, diff)
	}
	if diff := cmp.Diff(w.outputs, got.outputs); diff != "" {
		return fmt.Errorf("workflow run %s: outputs (-want +got):\n%s", w.name, diff)
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
	title("krt %s", quoted(args))
	var printed bytes.Buffer
	both := io.MultiWriter(os.Stdout, &printed)
	code, err := d.execTo(ctx, both, both, args...)
	if err != nil {
		return 0, "", fmt.Errorf("running krt %s: %w", strings.Join(args, " "), err)
	}
	return code, printed.String(), nil
}

// quoted gives arguments as one types them into a shell.
func quoted(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; strings.ContainsAny(arg, " $\"") {
			words[i] = "'" + arg + "'"
		}
	}
	return strings.Join(words, " ")
}
