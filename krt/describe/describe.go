// Package describe is the command "krt describe": everything a person needs to know about a Run, a WorkflowRun, a Workflow, an
// Action, a Runtime or a PersistentWorkspace.
package describe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/krt/runs"
)

// options are the parsed command line.
type options struct {
	targets []cli.Target
	factory *cli.Factory
}

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "describe {run|runtime|workflowrun|workflow|action|workspace} NAME...",
		Short: "Tell all about a Run, a WorkflowRun, a Workflow and more",
		Long: `Tell all about Runs, WorkflowRuns, Workflows, Actions, Runtimes or PersistentWorkspaces: of a Run, how it stands and why, where and when it was
executed, what is executed, and what came of it; of a WorkflowRun, what failed first, and its jobs and steps as a tree; of
a Runtime, its Pods, what they do now, and what keeps them from getting ready; of a workspace, where it lies, who uses it,
and how long it lives; of a Workflow or an Action, what it takes and gives, what it does and calls, and whether it is ready.`,
		Example: "  krt describe run nightly\n  krt describe runtime sh\n  krt describe workspace shared",
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: complete.Kinds(map[string]complete.Func{
			"run": complete.Runs(f, nil), "runtime": complete.Runtimes(f),
			"workflowrun": complete.WorkflowRuns(f, nil), "wfrun": complete.WorkflowRuns(f, nil),
			"workflow": complete.Workflows(f), "action": complete.Actions(f),
			"workspace": complete.Workspaces(f), "pws": complete.Workspaces(f), "persistentworkspace": complete.Workspaces(f),
		}, "run", "workflowrun", "workflow", "action", "runtime", "workspace"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts.targets, err = cli.ParseTargets(args); err != nil {
			return err
		}
		if opts.targets[0].Name == "" {
			return cli.WithHint(cli.Usagef("describe which %s?", opts.targets[0].Kind), "see those there are with `krt get %s`", args[0])
		}
		return runF(cmd.Context(), opts)
	}
	return cmd
}

// NewOf returns a command "describe" that tells about objects of one kind.
func NewOf(f *cli.Factory, kind cli.Kind, names complete.Func) *cobra.Command {
	word := strings.ToLower(string(kind))
	cmd := &cobra.Command{
		Use: "describe NAME...", Short: "Tell all about a " + string(kind), Args: cobra.ArbitraryArgs, ValidArgsFunction: names,
		Long: "Tell all about a " + string(kind) + ", as `krt describe " + word + " NAME` does.", Example: "  krt " + word + " describe NAME\n  krt describe " + word + " NAME",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.WithHint(cli.Usagef("describe which %s?", kind), "see those there are with `krt %s list`", word)
		}
		opts := &options{factory: f}
		for _, name := range args {
			opts.targets = append(opts.targets, cli.Target{Kind: kind, Name: name})
		}
		return execute(cmd.Context(), opts)
	}
	return cmd
}

// execute does the work of the command: all targets, and then the errors.
func execute(ctx context.Context, o *options) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	var errs []error
	shown := 0
	for _, target := range o.targets {
		text, err := describe(ctx, c, namespace, target, o.factory.Now())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if shown++; shown > 1 {
			text = "\n\n" + text
		}
		if _, err := io.WriteString(o.factory.IO.Out, text); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return errors.Join(errs...)
}

// view is what was read of one target.
type view interface {
	// text puts it into words.
	text(now time.Time) string
}

// describe reads what belongs to one target and puts it into words.
func describe(ctx context.Context, c client.Reader, namespace string, target cli.Target, now time.Time) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: target.Name}
	var seen view
	var err error
	switch target.Kind {
	case cli.KindRuntime:
		seen, err = loadRuntime(ctx, c, key)
	case cli.KindWorkflowRun:
		seen, err = loadWorkflowRun(ctx, c, key)
	case cli.KindWorkspace:
		seen, err = loadWorkspace(ctx, c, key)
	case cli.KindWorkflow:
		seen, err = loadWorkflow(ctx, c, key)
	case cli.KindAction:
		seen, err = loadAction(ctx, c, key)
	default:
		seen, err = loadRun(ctx, c, key)
	}
	if err != nil {
		return "", err
	}
	return seen.text(now), nil
}

// loadRun reads a Run and what belongs to it. What this person may not read, or is not there, is left out.
func loadRun(ctx context.Context, c client.Reader, key client.ObjectKey) (*runView, error) {
	run, err := runs.Get(ctx, c, key.Namespace, key.Name)
	if err != nil {
		return nil, err
	}
	view := &runView{run: run}
	view.events, view.eventsErr = eventsOf(ctx, c, run)
	if run.Status.Phase.IsTerminal() {
		return view, nil
	}
	var runtime corev1alpha1.Runtime
	switch err := c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: run.Spec.Runtime}, &runtime); {
	case err == nil:
		view.runtime = &runtime
	case apierrors.IsNotFound(err):
		view.runtimeMissing = true
	}
	return view, nil
}

// loadRuntime reads a Runtime and what belongs to it.
func loadRuntime(ctx context.Context, c client.Reader, key client.ObjectKey) (*runtimeView, error) {
	var runtime corev1alpha1.Runtime
	if err := c.Get(ctx, key, &runtime); err != nil {
		return nil, cli.Missing(err, cli.KindRuntime, key.Namespace, key.Name)
	}
	view := &runtimeView{runtime: &runtime}
	var pods corev1.PodList
	view.podsErr = c.List(ctx, &pods, client.InNamespace(key.Namespace),
		client.MatchingLabels{corev1alpha1.LabelRuntime: corev1alpha1.RuntimeLabelValue(key.Name)})
	view.pods = pods.Items
	view.runsErr = runs.Each(ctx, c, &client.ListOptions{Namespace: key.Namespace}, func(run *corev1alpha1.Run) {
		if run.Spec.Runtime == key.Name {
			view.runs = append(view.runs, *run)
		}
	})
	view.events, view.eventsErr = eventsOf(ctx, c, &runtime)
	return view, nil
}

// eventsOf lists the events about an object.
func eventsOf(ctx context.Context, c client.Reader, object client.Object) ([]corev1.Event, error) {
	var list corev1.EventList
	err := c.List(ctx, &list, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(object.GetUID())})
	return list.Items, err
}
