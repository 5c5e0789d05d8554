package lint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/workflow/expression"
	"kruntimes.io/kruntimes/workflow/suggest"
	"kruntimes.io/kruntimes/workflow/validate"
)

// check returns all that is wrong with a document. Objects of kinds that are not ours are right.
func check(ctx context.Context, d Document) ([]Finding, error) {
	known, err := loadDefinitions()
	if err != nil {
		return nil, err
	}
	gvk := d.Object.GroupVersionKind()
	compiled, ours := known.kinds[gvk]
	if !ours {
		return d.checkKind(gvk, known), nil
	}
	definition, err := compiled()
	if err != nil {
		return nil, fmt.Errorf("preparing the check of %s: %w", gvk.Kind, err)
	}
	said := d.language(definition.structural)
	if isTooLarge(said.errs) {
		return []Finding{d.fromField(said.errs[0])}, nil
	}
	findings := append(definition.unknownFields(&d), d.changedKeys(d.root)...)
	for _, e := range said.errs {
		findings = append(findings, d.fromField(e))
	}
	findings = append(findings, said.warnings...)
	shallow := d.metadata()
	if len(said.rest) == 0 { // else the schema would repeat what is only counted
		shallow = append(definition.check(ctx, d.Object), shallow...)
	}
	for _, e := range shallow {
		if f := d.fromField(e); !saidAlready(findings, f, e.Type) {
			findings = append(findings, f)
		}
	}
	findings = inOrder(findings)
	for _, e := range said.rest {
		last := findings[len(findings)-1]
		findings = append(findings, Finding{File: last.File, Line: last.Line, Column: last.Column, Message: words(e)})
	}
	return findings, nil
}

// isTooLarge tells whether a definition is refused for its size. Nothing else is said of it then.
func isTooLarge(errs field.ErrorList) bool {
	return len(errs) == 1 && errs[0].Type == field.ErrorTypeTooLong && errs[0].Field == "spec"
}

// inOrder orders findings as a person reads the files, which are given in their order.
func inOrder(findings []Finding, inFiles ...string) []Finding {
	files := make(map[string]int, len(inFiles))
	for i, file := range inFiles {
		files[file] = i
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(files[a.File]-files[b.File], a.Line-b.Line, a.Column-b.Column)
	})
	return findings
}

// saidAlready tells whether something is known to be wrong at the same place: the schema then says it once more, in
// other words. Its rules may point at something larger, and of two items that are the same at the whole item.
func saidAlready(findings []Finding, f Finding, kind field.ErrorType) bool {
	return slices.ContainsFunc(findings, func(other Finding) bool {
		switch {
		case other.Warning:
			return false
		case kind == field.ErrorTypeInvalid && other.path != "" && strings.HasPrefix(other.path, f.path):
			return true
		}
		return other.Line == f.Line && (other.Column == f.Column || kind == field.ErrorTypeDuplicate)
	})
}

// checkKind finds kinds that were meant to be ours.
func (d *Document) checkKind(gvk schema.GroupVersionKind, known *knownKinds) []Finding {
	apiVersion, _ := d.find("apiVersion")
	kind, _ := d.find("kind")
	switch {
	case gvk.Version == "" || gvk.Kind == "":
		return []Finding{d.at(d.root, "a manifest needs apiVersion and kind")}
	case !strings.Contains(gvk.Group, "kruntimes"):
		return nil
	}
	kinds := map[string]string{}
	for k := range known.kinds {
		kinds[k.Kind] = k.GroupVersion().String()
	}
	if version, exists := kinds[gvk.Kind]; exists {
		return []Finding{d.at(apiVersion.value, fmt.Sprintf("a %s has apiVersion %s", gvk.Kind, version))}
	}
	hint := suggest.DidYouMean(gvk.Kind, maps.Keys(kinds))
	if hint == "" {
		hint = ": the kinds are " + strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	}
	return []Finding{d.at(kind.value, fmt.Sprintf("there is no kind %q%s", gvk.Kind, hint))}
}

// language is what the rules of the workflow language say of a document.
type language struct {
	errs field.ErrorList
	// rest counts errors beyond those, in words.
	rest     field.ErrorList
	warnings []Finding
}

// add takes in the errors of one check, of which the last one may count others.
func (l *language) add(errs field.ErrorList) {
	if len(errs) > validate.MaxErrors {
		l.rest = append(l.rest, errs[validate.MaxErrors:]...)
		errs = errs[:validate.MaxErrors]
	}
	l.errs = append(l.errs, errs...)
}

// language checks what only the rules of the workflow language say.
func (d *Document) language(s *structuralschema.Structural) language {
	var said language
	switch d.Object.GroupVersionKind() {
	case workflowsv1alpha1.GroupVersion.WithKind(string(cli.KindWorkflowRun)):
		var run workflowsv1alpha1.WorkflowRun
		if d.decodeLeniently(s, &run) {
			said.add(validate.WorkflowRun(&run.Spec))
			if !isTooLarge(said.errs) {
				said.add(validate.OutputContract(run.Annotations, run.Spec.Jobs))
			}
			said.warnings = d.scriptsOfJobs(run.Spec.Jobs)
		}
	case workflowsv1alpha1.GroupVersion.WithKind(string(cli.KindWorkflow)):
		var workflow workflowsv1alpha1.Workflow
		if d.decodeLeniently(s, &workflow) {
			said.add(validate.Workflow(&workflow.Spec))
			said.warnings = d.scriptsOfJobs(workflow.Spec.Jobs)
		}
	case workflowsv1alpha1.GroupVersion.WithKind(string(cli.KindAction)):
		var action workflowsv1alpha1.Action
		if d.decodeLeniently(s, &action) {
			said.add(validate.Action(&action.Spec))
			said.warnings = d.scripts("spec.steps", action.Spec.Steps)
		}
	case corev1alpha1.GroupVersion.WithKind(string(cli.KindRun)):
		var run corev1alpha1.Run
		if d.decodeLeniently(s, &run) {
			said.add(selectors(run.Spec.Affinity))
		}
	}
	return said
}

// decodeLeniently makes a typed object of the document, also where a scalar has the wrong type: the schema says so, and
// the rest can be checked all the same.
func (d *Document) decodeLeniently(s *structuralschema.Structural, into any) bool {
	object, _ := fitting(runtime.DeepCopyJSON(d.Object.Object), s, "").(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, into) == nil {
		return true
	}
	delete(object, "metadata") // it has no schema to be fitted to, and is checked by itself
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into) == nil
}

// fitting replaces scalars that do not fit their schema. The value may be changed.
func fitting(value any, s *structuralschema.Structural, key string) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			below := s.AdditionalProperties
			if known, isKnown := s.Properties[k]; isKnown {
				v[k] = fitting(v[k], &known, k)
			} else if below != nil && below.Structural != nil {
				v[k] = fitting(v[k], below.Structural, "")
			}
		}
	case []any:
		for i := range v {
			if s.Items != nil {
				v[i] = fitting(v[i], s.Items, "")
			}
		}
	case string:
		if _, err := time.ParseDuration(v); err != nil && key == "timeout" {
			return "1m"
		}
	case int64, float64, bool:
		if s.Type == "string" {
			return fitting(fmt.Sprint(v), s, key)
		}
	}
	return value
}

// decode makes a typed object of the document. Where that does not work, the schema says why.
func (d *Document) decode(into any) bool {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, into) == nil
}

// metadata checks the names and labels of the object.
func (d *Document) metadata() field.ErrorList {
	var object metav1.PartialObjectMetadata
	if !d.decode(&object) {
		return field.ErrorList{field.TypeInvalid(field.NewPath("metadata"), "", "must be a mapping of names to texts, labels and more")}
	}
	if object.Namespace == "" {
		object.Namespace = metav1.NamespaceDefault // filled in from the command line
	}
	if object.Name == "" && object.GenerateName != "" {
		object.Name = object.GenerateName + "x" // as the API server does before it checks
	}
	return apivalidation.ValidateObjectMeta(&object.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// fromField places an error of a check.
func (d *Document) fromField(e *field.Error) Finding {
	found, exact := d.find(e.Field)
	if passage, ok := e.BadValue.(validate.Passage); ok && exact {
		line, column := d.inside(found.value, passage.Position, passage.Expression)
		text := expression.Error{Position: passage.Position, Expression: passage.Expression}.String()
		_, text, _ = strings.Cut(text, ": ") // its own place is in the file's now
		return Finding{File: d.file, Line: line, Column: column, Message: fmt.Sprintf("%s: %s: %s", e.Field, text, e.Detail), path: e.Field}
	}
	text := words(e)
	if value := found.value; exact && isNotText(e) && value.Kind == yaml.ScalarNode {
		text = cmp.Or(NotText(value), text)
	}
	f := d.at(pointAt(found, e), e.Field+": "+text)
	f.path = e.Field
	return f
}

// pointAt chooses between the key and the value of what is wrong.
func pointAt(p place, e *field.Error) *yaml.Node {
	if p.value.Kind == yaml.ScalarNode && e.Type != field.ErrorTypeForbidden && e.Type != field.ErrorTypeRequired {
		return p.value
	}
	return p.node()
}

// Line says in one line where in an object something is wrong, and what. A finding says it in the same words.
func Line(e *field.Error) string {
	if _, ok := e.BadValue.(validate.Passage); ok {
		return validate.Line(e)
	}
	return e.Field + ": " + words(e)
}

// words says what is wrong without repeating large values.
func words(e *field.Error) string {
	detail := strings.TrimPrefix(strings.TrimPrefix(e.Detail, e.Field+" in body "), "failed rule: ")
	switch e.Type {
	case field.ErrorTypeTypeInvalid, field.ErrorTypeInvalid:
		if want, is, ok := strings.Cut(strings.TrimPrefix(detail, "must be of type "), ": "); ok && strings.HasPrefix(detail, "must be of type ") {
			hint := ""
			if want == "string" && is != `"object"` && is != `"array"` {
				hint = ": put it in quotes"
			}
			return fmt.Sprintf("must be of type %s, but is of type %s%s", want, strings.Trim(is, `"`), hint)
		}
	case field.ErrorTypeNotSupported, field.ErrorTypeDuplicate:
		return e.ErrorBody()
	case field.ErrorTypeRequired:
		if detail == "" {
			return "is missing"
		}
		return detail
	}
	return cmp.Or(detail, e.ErrorBody())
}

func (d *Document) scriptsOfJobs(jobs map[string]workflowsv1alpha1.Job) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		findings = append(findings, d.scripts(fmt.Sprintf("spec.jobs[%s].steps", name), jobs[name].Steps)...)
	}
	return findings
}

// scripts warns about values that become part of a script: what is in them is executed.
func (d *Document) scripts(path string, steps []workflowsv1alpha1.Step) []Finding {
	var findings []Finding
	for i := range steps {
		template, _ := expression.Parse(steps[i].Run)
		place, exact := d.find(fmt.Sprintf("%s[%d].run", path, i))
		if !exact {
			continue
		}
		for _, r := range template.References() {
			passage := steps[i].Run[r.Offset:]
			if end := strings.Index(passage, "}}"); end >= 0 {
				passage = passage[:end+2]
			}
			line, column := d.inside(place.value, r.Position, passage)
			findings = append(findings, Finding{File: d.file, Line: line, Column: column, Warning: true,
				Message: fmt.Sprintf("the value of %s becomes part of the script, whatever is in it: pass it through env, and read the variable", r)})
		}
	}
	return findings
}
