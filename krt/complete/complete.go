// Package complete makes the shell complete the names that the cluster holds.
package complete

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// patience bounds a completion: a shell that hangs is worse than one that offers nothing.
const patience = 2 * time.Second

// limit bounds the number of objects that are read for one completion.
const limit = 500

// Func is what cobra calls for the words of an argument or flag.
type Func = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// Flag sets the completion of a flag that the command has.
func Flag(cmd *cobra.Command, flag string, fn Func) {
	if err := cmd.RegisterFlagCompletionFunc(flag, fn); err != nil {
		panic(err) // the flag does not exist: a bug, seen by every test of the command
	}
}

// Words completes fixed words.
func Words(words ...string) Func {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// Runtimes completes the names of Runtimes, with how many of their Pods are ready.
func Runtimes(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list corev1alpha1.RuntimeList
		return names(cmd.Context(), f, &list, func() (all []cobra.Completion) {
			for _, r := range list.Items {
				if offered(r.Name, args, toComplete) {
					all = append(all, cobra.CompletionWithDesc(r.Name, readiness(&r)))
				}
			}
			return all
		})
	}
}

// Workspaces completes the names of PersistentWorkspaces, with their phase and Runtime. Where the command has a flag
// --runtime that is set, only those of that Runtime.
func Workspaces(f *cli.Factory) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		chosen := ""
		if flag := cmd.Flags().Lookup("runtime"); flag != nil {
			chosen = flag.Value.String()
		}
		var list workspacesv1alpha1.PersistentWorkspaceList
		return names(cmd.Context(), f, &list, func() (all []cobra.Completion) {
			for _, w := range list.Items {
				if offered(w.Name, args, toComplete) && (chosen == "" || chosen == w.Spec.Runtime) {
					all = append(all, cobra.CompletionWithDesc(w.Name, string(w.Status.Phase)+", "+w.Spec.Runtime))
				}
			}
			return all
		})
	}
}

// Runs completes the names of Runs that keep accepts, with their phase. A nil keep accepts all.
func Runs(f *cli.Factory, keep func(*corev1alpha1.Run) bool) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list corev1alpha1.RunList
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

// OneRun completes the name of one Run, after which nothing follows.
func OneRun(f *cli.Factory) Func {
	all := Runs(f, nil)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 1 || (len(args) == 1 && args[0] != "run") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all(cmd, args, toComplete)
	}
}

// Kinds completes a first argument that is one of the words, and hands all further ones to the function of their kind.
func Kinds(kinds map[string]Func, words ...string) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return words, cobra.ShellCompDirectiveNoFileComp
		}
		if fn, ok := kinds[args[0]]; ok {
			return fn(cmd, args[1:], toComplete)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func offered(name string, args []string, toComplete string) bool {
	for _, a := range args {
		if a == name {
			return false
		}
	}
	return strings.HasPrefix(name, toComplete)
}

func readiness(r *corev1alpha1.Runtime) string {
	if r.Status.ReadyReplicas == 0 {
		return "no Pod ready"
	}
	return "ready"
}

// names fills list and returns what collect makes of it. Nothing is offered when the cluster cannot be asked.
func names(ctx context.Context, f *cli.Factory, list client.ObjectList, collect func() []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	if ctx == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	namespace, err := f.Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := f.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(limit)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return collect(), cobra.ShellCompDirectiveNoFileComp
}
