package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// script is one example and what must come of it.
type script struct {
	name, runtime, file string
	args                []string
	exitCode            int
	phase               corev1alpha1.RunPhase
	outputs             map[string]corev1alpha1.OutputValue
	stdout              string
}

func (d *demo) scripts() []script {
	scripts := demoScripts()
	if d.python {
		return scripts
	}
	return slices.DeleteFunc(scripts, func(s script) bool { return s.runtime == "python" })
}

// runScripts runs each example as a person would, with krt, and compares what came of it.
func (d *demo) runScripts(ctx context.Context) error {
	for _, s := range d.scripts() {
		args := []string{"run", s.name, "--runtime", s.runtime, "--file", s.file, "--follow"}
		if len(s.args) > 0 {
			args = append(append(args, "--"), s.args...)
		}
		title("krt %s", strings.Join(args, " "))
		code, stdout, err := d.exec(ctx, args...)
		if err != nil {
			return fmt.Errorf("running %s: %w", s.name, err)
		}
		run := &corev1alpha1.Run{}
		if err := d.client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: s.name}, run); err != nil {
			return fmt.Errorf("reading run %s: %w", s.name, err)
		}
		say("exit code %d, phase %s%s", code, run.Status.Phase, outputs(run))
		if code != s.exitCode || run.Status.Phase != s.phase {
			return fmt.Errorf("run %s: exit code %d and phase %s, want %d and %s (%s)", s.name, code, run.Status.Phase, s.exitCode, s.phase, run.Status.Message)
		}
		if diff := cmp.Diff(s.outputs, run.Status.Outputs); diff != "" {
			return fmt.Errorf("run %s: outputs (-want +got):\n%s", s.name, diff)
		}
		if !strings.Contains(stdout, s.stdout) {
			return fmt.Errorf("run %s: standard output %q does not hold %q", s.name, stdout, s.stdout)
		}
	}
	return nil
}

// exec runs krt, shows its output, and returns its exit code and standard output.
func (d *demo) exec(ctx context.Context, args ...string) (int, string, error) {
	var stdout bytes.Buffer
	code, err := d.execTo(ctx, io.MultiWriter(os.Stdout, &stdout), os.Stdout, args...)
	return code, stdout.String(), err
}

// execTo runs krt with its streams where the caller wants them, and returns its exit code.
func (d *demo) execTo(ctx context.Context, stdout, stderr io.Writer, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, d.krt, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// runMany creates n Runs at once and prints when each part of their life took place.
func (d *demo) runMany(ctx context.Context, n int) error {
	title("%d Runs at once on runtime sh", n)
	begin := time.Now()
	selector := client.MatchingLabels{"demo": "many"}
	for i := range n {
		run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: fmt.Sprintf("many-%02d", i), Labels: selector}}
		run.Spec.Runtime = "sh"
		run.Spec.Source = &corev1alpha1.RunSource{Inline: fmt.Sprintf("echo square=%d >> \"$KRUNTIME_OUTPUTS\"\n", i*i)}
		if err := d.client.Create(ctx, run); err != nil {
			return fmt.Errorf("creating run %s: %w", run.Name, err)
		}
	}
	created := time.Since(begin)
	runs := &corev1alpha1.RunList{}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := d.client.List(ctx, runs, client.InNamespace(d.namespace), selector); err != nil {
			return false, err
		}
		return !slices.ContainsFunc(runs.Items, func(r corev1alpha1.Run) bool { return !r.Status.Phase.IsTerminal() }), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d Runs: %w", n, err)
	}
	elapsed := time.Since(begin)
	if err := printRuns(runs.Items); err != nil {
		return err
	}
	say("%d Runs created in %s, all finished after %s: %.0f Runs/s", n, created.Round(time.Millisecond), elapsed.Round(time.Millisecond), float64(n)/elapsed.Seconds())
	return checkSquares(runs.Items, n)
}

// outputs lists the outputs of a Run, ready to be appended to a sentence; quoted, so that line breaks show.
func outputs(run *corev1alpha1.Run) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(run.Status.Outputs)) {
		text += fmt.Sprintf(", output %s=%q", name, string(run.Status.Outputs[name]))
	}
	return text
}

// shownRuns is how many of many Runs are shown.
const shownRuns = 5

// printRuns shows the first few Runs.
func printRuns(runs []corev1alpha1.Run) error {
	more := len(runs) - shownRuns
	runs = runs[:min(len(runs), shownRuns)]
	w := tabwriter.NewWriter(os.Stdout, 2, 4, 2, ' ', 0)
	fmt.Fprintln(w, "    RUN\tPHASE\tEXIT\tPOD\tSCHEDULED→STARTED\tSTARTED→FINISHED")
	for _, r := range runs {
		s := r.Status
		fmt.Fprintf(w, "    %s\t%s\t%s\t%s\t%s\t%s\n", r.Name, s.Phase, exitCode(s.ExitCode), s.AssignedPod, between(s.ScheduledTime, s.StartTime), between(s.StartTime, s.CompletionTime))
	}
	if more > 0 {
		fmt.Fprintf(w, "    … and %d more\n", more)
	}
	return w.Flush()
}

func exitCode(code *int32) string {
	if code == nil {
		return "-"
	}
	return fmt.Sprint(*code)
}

func between(from, to *metav1.MicroTime) string {
	if from == nil || to == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", float64(to.Sub(from.Time).Microseconds())/1000)
}

func checkSquares(runs []corev1alpha1.Run, n int) error {
	if len(runs) != n {
		return fmt.Errorf("%d Runs are there, want %d", len(runs), n)
	}
	var errs []error
	for _, r := range runs {
		var i int
		if _, err := fmt.Sscanf(r.Name, "many-%02d", &i); err != nil {
			return fmt.Errorf("reading the number of run %s: %w", r.Name, err)
		}
		want := corev1alpha1.OutputValue(fmt.Sprint(i * i))
		if r.Status.Phase != corev1alpha1.RunSucceeded || r.Status.Outputs["square"] != want {
			errs = append(errs, fmt.Errorf("run %s: %s with outputs %v (%s), want Succeeded with square=%s", r.Name, r.Status.Phase, r.Status.Outputs, r.Status.Message, want))
		}
	}
	return errors.Join(errs...)
}
