package complete

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// WorkflowRuns completes the names of WorkflowRuns that keep accepts, with their phase. A nil keep accepts all.
func WorkflowRuns(f *cli.Factory, keep func(*workflowsv1alpha1.WorkflowRun) bool) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list workflowsv1alpha1.WorkflowRunList
		return names(cmd.Context(), f, &list, func() (all []cobra.Completion) {
			for _, r := range list.Items {
				if offered(r.Name, args, toComplete) && (keep == nil || keep(&r)) {
					all = append(all, cobra.CompletionWithDesc(r.Name, string(r.Status.Phase)))
				}
			}
			return all
		})
	}
}

// Workflows completes the names of Workflows.
func Workflows(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list workflowsv1alpha1.WorkflowList
		return names(cmd.Context(), f, &list, func() (all []cobra.Completion) {
			for _, w := range list.Items {
				if offered(w.Name, args, toComplete) {
					all = append(all, w.Name)
				}
			}
			return all
		})
	}
}

// InputsOf completes the inputs of the Workflow that the command line names, as NAME=, with what they are for.
func InputsOf(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		name, err := cli.ParseWorkflow(args)
		if err != nil || strings.Contains(toComplete, "=") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		given, _ := cmd.Flags().GetStringArray("input")
		var list workflowsv1alpha1.WorkflowList
		all, directive := names(cmd.Context(), f, &list, func() (all []cobra.Completion) {
			for _, w := range list.Items {
				if w.Name == name {
					all = inputs(w.Spec.Inputs, given, toComplete)
				}
			}
			return all
		})
		return all, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// inputs are those that are not given already and begin like toComplete.
func inputs(declared map[string]workflowsv1alpha1.Input, given []string, toComplete string) (all []cobra.Completion) {
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		isGiven := slices.ContainsFunc(given, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		if isGiven || !strings.HasPrefix(name, toComplete) {
			continue
		}
		input := declared[name]
		about := input.Description
		switch {
		case about == "" && input.Required:
			about = "required"
		case about == "" && input.Default != nil:
			about = "default: " + *input.Default
		}
		all = append(all, cobra.CompletionWithDesc(name+"=", cli.OneLine(about, 60)))
	}
	return all
}

// Actions completes the names of Actions.
func Actions(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list workflowsv1alpha1.ActionList
		return names(cmd.Context(), f, &list, func() (all []cobra.Completion) {
			for _, a := range list.Items {
				if offered(a.Name, args, toComplete) {
					all = append(all, a.Name)
				}
			}
			return all
		})
	}
}

// OneOf completes one name of a kind, before which the word for the kind may stand.
func OneOf(word string, fn Func) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 1 || (len(args) == 1 && args[0] != word) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return fn(cmd, args, toComplete)
	}
}

// OneExecution completes the name of one Run or, after the word for its kind, of one WorkflowRun.
func OneExecution(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			if kind, ok := cli.ParseKind(args[0]); ok && kind == cli.KindWorkflowRun {
				return WorkflowRuns(f, nil)(cmd, args[1:], toComplete)
			}
		}
		return OneRun(f)(cmd, args, toComplete)
	}
}

// Executions completes the names of Runs that keepRun accepts or, after the word for the kind, of WorkflowRuns that
// keepWorkflowRun accepts. A nil function accepts all.
func Executions(f *cli.Factory, keepRun func(*corev1alpha1.Run) bool, keepWorkflowRun func(*workflowsv1alpha1.WorkflowRun) bool) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			if kind, ok := cli.ParseKind(args[0]); ok && kind == cli.KindWorkflowRun {
				return WorkflowRuns(f, keepWorkflowRun)(cmd, args[1:], toComplete)
			}
		}
		return Runs(f, keepRun)(cmd, args, toComplete)
	}
}

// JobsOf completes the names of the jobs of the WorkflowRun that the command line names.
func JobsOf(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return ofWorkflowRun(cmd, f, args, func(run *workflowsv1alpha1.WorkflowRun) (all []cobra.Completion) {
			for _, job := range slices.Sorted(maps.Keys(run.Spec.Jobs)) {
				if strings.HasPrefix(job, toComplete) {
					all = append(all, cobra.CompletionWithDesc(job, string(run.Status.Jobs[job].Phase)))
				}
			}
			return all
		})
	}
}

// StepsOf completes the names of the steps of the WorkflowRun that the command line names, of one job where the flag
// --job names it.
func StepsOf(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		chosen, _ := cmd.Flags().GetString("job")
		return ofWorkflowRun(cmd, f, args, func(run *workflowsv1alpha1.WorkflowRun) (all []cobra.Completion) {
			for _, job := range slices.Sorted(maps.Keys(run.Spec.Jobs)) {
				for _, step := range run.Spec.Jobs[job].Steps {
					if (chosen == "" || chosen == job) && strings.HasPrefix(step.Name, toComplete) && !slices.Contains(all, step.Name) {
						all = append(all, step.Name)
					}
				}
			}
			return all
		})
	}
}

// ofWorkflowRun finds the WorkflowRun that the command line names and returns what collect makes of it.
func ofWorkflowRun(cmd *cobra.Command, f *cli.Factory, args []string, collect func(*workflowsv1alpha1.WorkflowRun) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	targets, err := cli.ParseExecutions(args)
	if err != nil || len(targets) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list workflowsv1alpha1.WorkflowRunList
	return names(cmd.Context(), f, &list, func() []cobra.Completion {
		for i := range list.Items {
			if list.Items[i].Name == targets[0].Name {
				return collect(&list.Items[i])
			}
		}
		return nil
	})
}
