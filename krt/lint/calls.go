package lint

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/workflow/calls"
)

// Elsewhere finds the definitions that are in no file.
type Elsewhere struct {
	// Namespace is that of documents that name none.
	Namespace string
	// Definitions returns the definitions of a namespace.
	Definitions func(namespace string) calls.Definitions
}

// Calls checks what Workflows and WorkflowRuns call among the definitions of the documents, and elsewhere, if that is not nil.
// Where it is, a call of what is not there is not checked, and unchecked says so in a warning; and a document without a
// namespace is taken for one of any namespace. The error is one of reading elsewhere.
func Calls(documents []Document, elsewhere *Elsewhere) (findings, unchecked []Finding, err error) {
	l, err := newLibrary(documents, elsewhere)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range l.callers {
		defs := l.in(l.nameOf(c.document).namespace)
		for _, e := range defs.unchecked(c.jobs) {
			finding := c.document.fromField(e)
			finding.Warning = true
			unchecked = append(unchecked, finding)
		}
		errs, err := c.check(defs)
		if err != nil {
			return nil, nil, fmt.Errorf("checking the calls of %s: %w", c.document.Place(), err)
		}
		for _, e := range errs {
			findings = append(findings, c.document.fromField(e))
		}
	}
	return append(findings, l.twice...), unchecked, nil
}

// caller is a document that may call others.
type caller struct {
	document *Document
	// name is that of a Workflow, and empty for a WorkflowRun, which nothing can call.
	name string
	jobs map[string]workflowsv1alpha1.Job
}

// check returns what is wrong with the calls. Those of what cannot be found are left out, unless elsewhere is looked at too.
func (c *caller) check(defs *namespaceDefinitions) (field.ErrorList, error) {
	jobs := defs.checkable(c.jobs)
	if c.name == "" {
		return calls.Jobs(defs, jobs)
	}
	return calls.Workflow(defs, c.name, &workflowsv1alpha1.WorkflowSpec{Jobs: jobs})
}

// objectName is a name in a namespace.
type objectName struct{ namespace, name string }

// library holds the definitions of documents.
type library struct {
	workflows map[objectName]*workflowsv1alpha1.WorkflowSpec
	actions   map[objectName]*workflowsv1alpha1.ActionSpec
	elsewhere *Elsewhere
	callers   []caller
	// twice are warnings about definitions of one name. The first one counts.
	twice []Finding
	// opened are the definitions as each namespace sees them.
	opened map[string]*namespaceDefinitions
}

func newLibrary(documents []Document, elsewhere *Elsewhere) (*library, error) {
	l := &library{
		workflows: map[objectName]*workflowsv1alpha1.WorkflowSpec{}, actions: map[objectName]*workflowsv1alpha1.ActionSpec{},
		elsewhere: elsewhere, opened: map[string]*namespaceDefinitions{},
	}
	known, err := loadDefinitions()
	if err != nil {
		return nil, err
	}
	first := map[cli.Target]map[string]string{}
	for i := range documents {
		d := &documents[i]
		kind := cli.Kind(d.Object.GetKind())
		compiled, ours := known.kinds[d.Object.GroupVersionKind()]
		if !ours || !slices.Contains([]cli.Kind{cli.KindWorkflow, cli.KindWorkflowRun, cli.KindAction}, kind) {
			continue
		}
		definition, err := compiled()
		if err != nil {
			return nil, fmt.Errorf("preparing the check of %s: %w", kind, err)
		}
		name := l.nameOf(d)
		if target := (cli.Target{Kind: kind, Name: name.name}); kind != cli.KindWorkflowRun && name.name != "" {
			if place, twice := first[target][name.namespace]; twice {
				found, _ := d.find("metadata.name")
				l.twice = append(l.twice, d.at(found.value, fmt.Sprintf("there is a %s %q already, in %s", kind, name.name, place)))
				l.twice[len(l.twice)-1].Warning = true
				continue
			}
			if first[target] == nil {
				first[target] = map[string]string{}
			}
			first[target][name.namespace] = d.Place()
		}
		l.add(d, name, definition)
	}
	return l, nil
}

// nameOf returns the name of a document, and the namespace in which it is looked for.
func (l *library) nameOf(d *Document) objectName {
	name := objectName{d.Object.GetNamespace(), d.Object.GetName()}
	if name.namespace == "" && l.elsewhere != nil {
		name.namespace = l.elsewhere.Namespace
	}
	return name
}

// add takes in one document. What cannot be understood at all is left out: its own check says why.
func (l *library) add(d *Document, name objectName, definition *definition) {
	switch cli.Kind(d.Object.GetKind()) {
	case cli.KindWorkflow:
		var workflow workflowsv1alpha1.Workflow
		if d.decodeLeniently(definition.structural, &workflow) {
			l.workflows[name] = &workflow.Spec
			l.callers = append(l.callers, caller{document: d, name: name.name, jobs: workflow.Spec.Jobs})
		}
	case cli.KindAction:
		var action workflowsv1alpha1.Action
		if d.decodeLeniently(definition.structural, &action) {
			l.actions[name] = &action.Spec
		}
	default:
		var run workflowsv1alpha1.WorkflowRun
		if d.decodeLeniently(definition.structural, &run) {
			l.callers = append(l.callers, caller{document: d, jobs: run.Spec.Jobs})
		}
	}
}

// in returns the definitions as a namespace sees them.
func (l *library) in(namespace string) *namespaceDefinitions {
	if l.opened[namespace] == nil {
		defs := &namespaceDefinitions{library: l, namespace: namespace}
		if l.elsewhere != nil {
			defs.elsewhere = l.elsewhere.Definitions(namespace)
		}
		l.opened[namespace] = defs
	}
	return l.opened[namespace]
}

// namespaceDefinitions are the definitions as one namespace sees them. It implements calls.Definitions.
type namespaceDefinitions struct {
	*library
	namespace string
	elsewhere calls.Definitions
}

// lookup finds the definition of a name: that of the namespace, else one without a namespace; without a namespace, any.
func lookup[T any](from map[objectName]*T, namespace, name string) *T {
	for _, at := range []string{namespace, ""} {
		if spec := from[objectName{at, name}]; spec != nil {
			return spec
		}
	}
	if namespace != "" {
		return nil
	}
	var namespaces []string
	for at := range from {
		if at.name == name {
			namespaces = append(namespaces, at.namespace)
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	return from[objectName{slices.Min(namespaces), name}]
}

// Workflow implements calls.Definitions. Of calls that cannot be checked, nothing is in what it returns.
func (n *namespaceDefinitions) Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error) {
	spec := lookup(n.workflows, n.namespace, name)
	switch {
	case spec == nil && n.elsewhere != nil:
		return n.elsewhere.Workflow(name)
	case spec == nil || n.elsewhere != nil:
		return spec, nil
	}
	checkable := *spec
	checkable.Jobs = n.checkable(spec.Jobs)
	return &checkable, nil
}

// Action implements calls.Definitions.
func (n *namespaceDefinitions) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	spec := lookup(n.actions, n.namespace, name)
	if spec == nil && n.elsewhere != nil {
		return n.elsewhere.Action(name)
	}
	return spec, nil
}

// isKnown tells whether a call can be checked.
func (n *namespaceDefinitions) isKnown(kind cli.Kind, name string) bool {
	if name == "" || n.elsewhere != nil {
		return true
	}
	if kind == cli.KindWorkflow {
		return lookup(n.workflows, n.namespace, name) != nil
	}
	return lookup(n.actions, n.namespace, name) != nil
}

// checkable returns the jobs with a script in place of each call that cannot be checked.
func (n *namespaceDefinitions) checkable(jobs map[string]workflowsv1alpha1.Job) map[string]workflowsv1alpha1.Job {
	kept := maps.Clone(jobs)
	for name, job := range jobs {
		if !n.isKnown(cli.KindWorkflow, job.Uses) {
			kept[name] = workflowsv1alpha1.Job{Needs: job.Needs, RunsOn: "any", Steps: []workflowsv1alpha1.Step{{Name: "call", Run: "true"}}}
			continue
		}
		isUnknown := func(s workflowsv1alpha1.Step) bool { return !n.isKnown(cli.KindAction, s.Uses) }
		if !slices.ContainsFunc(job.Steps, isUnknown) {
			continue
		}
		job.Steps = slices.Clone(job.Steps)
		for i, step := range job.Steps {
			if isUnknown(step) {
				job.Steps[i] = workflowsv1alpha1.Step{Name: step.Name, Run: "true"}
			}
		}
		kept[name] = job
	}
	return kept
}

// unchecked returns the calls that cannot be checked.
func (n *namespaceDefinitions) unchecked(jobs map[string]workflowsv1alpha1.Job) field.ErrorList {
	var errs field.ErrorList
	say := func(path *field.Path, kind cli.Kind, name string) {
		if !n.isKnown(kind, name) {
			errs = append(errs, &field.Error{Type: field.ErrorTypeNotFound, Field: path.Child("uses").String(), BadValue: name,
				Detail: fmt.Sprintf("the %s %q is not in these files, so that the call is not checked", kind, name)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		path := field.NewPath("spec", "jobs").Key(name)
		say(path, cli.KindWorkflow, jobs[name].Uses)
		for i := range jobs[name].Steps {
			say(path.Child("steps").Index(i), cli.KindAction, jobs[name].Steps[i].Uses)
		}
	}
	return errs
}
