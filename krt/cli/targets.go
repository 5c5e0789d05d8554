package cli

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// Kind is a kind of object that commands take, named as in the API.
type Kind string

// The kinds that commands take.
const (
	KindRun         Kind = "Run"
	KindRuntime     Kind = "Runtime"
	KindWorkflowRun Kind = "WorkflowRun"
	KindWorkflow    Kind = "Workflow"
	KindAction      Kind = "Action"
	KindWorkspace   Kind = "PersistentWorkspace"
)

// kinds lists all of them.
var kinds = []Kind{KindRun, KindRuntime, KindWorkflowRun, KindWorkflow, KindAction, KindWorkspace}

// Plural returns the word by which the API server knows all objects of the kind.
func (k Kind) Plural() string { return strings.ToLower(string(k)) + "s" }

// GroupVersionKind returns the full name of the kind.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	version := workflowsv1alpha1.GroupVersion
	switch k {
	case KindRun, KindRuntime:
		version = corev1alpha1.GroupVersion
	case KindWorkspace:
		version = workspacesv1alpha1.GroupVersion
	default:
	}
	return version.WithKind(string(k))
}

// Resource returns the word by which kubectl reports on an object of the kind, such as run.kruntimes.io.
func (k Kind) Resource() string {
	return strings.ToLower(string(k)) + "." + k.GroupVersionKind().Group
}

// kindWords are the words by which a person may call a kind.
var kindWords = func() map[string]Kind {
	words := map[string]Kind{"wfrun": KindWorkflowRun, "wfruns": KindWorkflowRun,
		"workspace": KindWorkspace, "workspaces": KindWorkspace, "pws": KindWorkspace}
	for _, k := range kinds {
		words[strings.ToLower(string(k))], words[k.Plural()] = k, k
		words[k.Resource()], words[k.Plural()+"."+k.GroupVersionKind().Group] = k, k
	}
	return words
}()

// kindsThereAre lists the kinds for hints.
const kindsThereAre = "the kinds are: runs, workflowruns, workflows, actions, runtimes, workspaces"

// ParseKind returns the kind that a word means.
func ParseKind(word string) (Kind, bool) {
	kind, ok := kindWords[strings.ToLower(word)]
	return kind, ok
}

// Target is one object that the command line names, or a whole kind when Name is empty.
type Target struct {
	// Kind of the object.
	Kind Kind
	// Name of the object, or empty.
	Name string
}

// ParseTargets understands "KIND NAME...", "KIND,KIND" and "KIND/NAME...".
func ParseTargets(args []string) ([]Target, error) {
	if len(args) == 0 {
		return nil, WithHint(Usagef("what? name a kind"), kindsThereAre)
	}
	if strings.Contains(args[0], "/") {
		return parsePairs(args)
	}
	var kinds []Kind
	for word := range strings.SplitSeq(args[0], ",") {
		kind, err := mustKind(word)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	var targets []Target
	for _, kind := range kinds {
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, Usagef("%q: write either KIND NAME... or KIND/NAME..., not both", name)
			}
			targets = append(targets, Target{Kind: kind, Name: name})
		}
		if len(args) == 1 {
			targets = append(targets, Target{Kind: kind})
		}
	}
	return targets, nil
}

func parsePairs(args []string) ([]Target, error) {
	var targets []Target
	for _, pair := range args {
		word, name, ok := strings.Cut(pair, "/")
		if !ok || name == "" {
			return nil, Usagef("%q: write either KIND NAME... or KIND/NAME..., not both", pair)
		}
		kind, err := mustKind(word)
		if err != nil {
			return nil, err
		}
		targets = append(targets, Target{Kind: kind, Name: name})
	}
	return targets, nil
}

func mustKind(word string) (Kind, error) {
	if kind, ok := ParseKind(word); ok {
		return kind, nil
	}
	return "", WithHint(Usagef("there is no kind %q", word), kindsThereAre)
}

// ParseRuns understands the arguments of a command that takes Runs only, with or without the kind: "NAME...",
// "run NAME..." and "run/NAME...". A single word is always a name.
func ParseRuns(args []string) ([]string, error) {
	if len(args) > 1 {
		if kind, ok := ParseKind(args[0]); ok && kind == KindRun {
			args = args[1:]
		}
	}
	names := make([]string, 0, len(args))
	for _, arg := range args {
		word, name, pair := strings.Cut(arg, "/")
		if !pair {
			name = arg
		} else if kind, ok := ParseKind(word); !ok || kind != KindRun {
			return nil, Usagef("%q is not a Run: write NAME or run/NAME", arg)
		}
		if name == "" {
			return nil, Usagef("the name of a Run must not be empty")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, WithHint(Usagef("which Run?"), "see the Runs there are with `krt get runs`")
	}
	return names, nil
}

// ParseExecutions understands the arguments of a command that takes Runs and WorkflowRuns: "NAME..." for Runs,
// "KIND NAME..." and "KIND/NAME...". A single word is always the name of a Run.
func ParseExecutions(args []string) ([]Target, error) {
	kind := KindRun
	if len(args) > 1 {
		if k, ok := ParseKind(args[0]); ok && isExecution(k) {
			kind, args = k, args[1:]
		}
	}
	targets := make([]Target, 0, len(args))
	for _, arg := range args {
		target := Target{Kind: kind, Name: arg}
		if word, name, pair := strings.Cut(arg, "/"); pair {
			k, ok := ParseKind(word)
			if !ok || !isExecution(k) {
				return nil, Usagef("%q is neither a Run nor a WorkflowRun: write NAME, run/NAME or workflowrun/NAME", arg)
			}
			target = Target{Kind: k, Name: name}
		}
		if target.Name == "" {
			return nil, Usagef("the name of a %s must not be empty", target.Kind)
		}
		if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	if len(targets) == 0 {
		return nil, WithHint(Usagef("which Run or WorkflowRun?"), "see those there are with `krt get runs,workflowruns`")
	}
	return targets, nil
}

// isExecution tells whether objects of the kind are executed.
func isExecution(k Kind) bool { return k == KindRun || k == KindWorkflowRun }

// ParseWorkflowRun understands the arguments of a command that takes one WorkflowRun, with or without the kind.
func ParseWorkflowRun(args []string) (string, error) { return parseOne(KindWorkflowRun, args) }

// ParseWorkflow understands the arguments of a command that takes one Workflow, with or without the kind.
func ParseWorkflow(args []string) (string, error) { return parseOne(KindWorkflow, args) }

// parseOne understands the arguments of a command that takes one object of a kind, with or without the word for it.
func parseOne(kind Kind, args []string) (string, error) {
	if len(args) == 2 {
		if k, ok := ParseKind(args[0]); ok && k == kind {
			args = args[1:]
		}
	}
	switch len(args) {
	case 0:
		return "", WithHint(Usagef("which %s?", kind), "see the %ss there are with `krt get %s`", kind, kind.Plural())
	case 1:
	default:
		return "", Usagef("one %s at a time, but there are %d names", kind, len(args))
	}
	word, name, pair := strings.Cut(args[0], "/")
	if !pair {
		name = args[0]
	} else if k, ok := ParseKind(word); !ok || k != kind {
		return "", Usagef("%q is not a %s: write NAME or %s/NAME", args[0], kind, strings.ToLower(string(kind)))
	}
	if name == "" {
		return "", Usagef("the name of a %s must not be empty", kind)
	}
	return name, nil
}
