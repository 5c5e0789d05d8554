package complete

import (
	"github.com/spf13/cobra"

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
