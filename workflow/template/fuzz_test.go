package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/expression"
)

// hostile are values that somebody would use to have them read as expressions, by themselves or with their neighbours.
var hostile = []string{
	"", "$", "{", "{{", "${", "$${{", "${{ jobs.x }}", "${{ inputs.a }}", "${{ steps.s.outputs.k }}", "a$", "{{ inputs.a }}", "}}", "'", "''", "it's ${{ '",
	"$(touch pwned)", "`x`\n\"y\"\r\n", "${{ '${{' }}", "' }}${{ inputs.a }}", "\x00", "ä€😀", "3.10",
}

// everywhere is a job, and what is called, that holds a text wherever an expression may stand.
func everywhere(text string) map[string]workflowsv1alpha1.Job {
	return map[string]workflowsv1alpha1.Job{
		"call": {Uses: "other", Needs: []string{"steps"}, With: map[string]workflowsv1alpha1.InputValue{"a": workflowsv1alpha1.InputValue(text)}},
		"steps": {
			RunsOn:  text,
			Env:     map[string]workflowsv1alpha1.EnvValue{"A": workflowsv1alpha1.EnvValue(text), "B": "${{ 'kept' }}"},
			Outputs: map[string]workflowsv1alpha1.Output{"o": {Value: text, Description: "${{ kept"}},
			Steps: []workflowsv1alpha1.Step{
				{Name: "${{ kept", Run: text, Env: map[string]workflowsv1alpha1.EnvValue{"A": workflowsv1alpha1.EnvValue(text)},
					Artifacts: []workflowsv1alpha1.StepArtifact{{From: text, Path: text}}},
				{Name: "t", Uses: "${{ kept", With: map[string]workflowsv1alpha1.InputValue{"a": workflowsv1alpha1.InputValue(text)}},
			},
		},
	}
}

// texts are all the texts of jobs, by their place.
func texts(t *testing.T, jobs map[string]workflowsv1alpha1.Job) map[string]string {
	t.Helper()
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	if err := encoder.Encode(jobs); err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(data.Bytes(), &tree); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var walk func(place string, at any)
	walk = func(place string, at any) {
		switch at := at.(type) {
		case map[string]any:
			for key, below := range at {
				walk(place+"."+key, below)
			}
		case []any:
			for i, below := range at {
				walk(fmt.Sprintf("%s.%d", place, i), below)
			}
		case string:
			found[place] = at
		}
	}
	walk("jobs", tree)
	return found
}

// scopeOf gives a hostile value to everything that a text reads.
func scopeOf(template expression.Template, value func(expression.Reference) string) expression.Scope {
	scope := expression.Scope{Inputs: map[string]string{}, Steps: map[string]map[string]string{}, Jobs: map[string]map[string]string{}}
	for _, r := range template.References() {
		owners := map[expression.Context]map[string]map[string]string{expression.ContextSteps: scope.Steps, expression.ContextJobs: scope.Jobs}[r.Context]
		if owners == nil {
			scope.Inputs[r.Name] = value(r)
			continue
		}
		if owners[r.Owner] == nil {
			owners[r.Owner] = map[string]string{}
		}
		owners[r.Owner][r.Name] = value(r)
	}
	return scope
}

// FuzzJobs renders a text in all places of a job, and evaluates it in any scope: it must come out as if the inputs had
// been in the scope, and all that is no such text must be as it was.
func FuzzJobs(f *testing.F) {
	for _, value := range hostile {
		f.Add("$${{ inputs.a }}{{ x ${{ '${{' }}${{ steps.s.outputs.k }}${{ inputs.b }} ${{ jobs.j.outputs.k }}{", value, "${{ inputs.b }}")
		f.Add("${{ inputs.a }}${{inputs.b}}'${{ inputs.a }}", "$", value)
	}
	f.Add("${{ x }} ${{ inputs.a", "", "")
	f.Fuzz(func(t *testing.T, text, a, other string) {
		text, a, other = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(other, "?")
		template, wrong := expression.Parse(text)
		scope := scopeOf(template, func(r expression.Reference) string {
			if r.Name == "a" {
				return a
			}
			return other
		})
		given := everywhere(text)
		jobs, errs := Jobs(given, scope.Inputs)
		if len(errs) > 0 {
			// A value may double, and a literal adds 10 characters. runs-on has the closest bound.
			longest := len(text) + len(template.References())*(2*max(len(a), len(other))+10)
			if jobs != nil || len(wrong) == 0 && longest <= 253 {
				t.Fatalf("got %d jobs and %v of %q", len(jobs), errs.ToAggregate(), text)
			}
			return
		}
		if len(wrong) > 0 {
			t.Fatalf("%q was rendered, though %v", text, wrong)
		}
		want, err := template.Evaluate(scope)
		if err != nil {
			t.Fatal(err)
		}
		before, after := texts(t, given), texts(t, jobs)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))); diff != "" {
			t.Fatalf("places of texts (-want +got):\n%s", diff)
		}
		for place, rendered := range after {
			if before[place] != text || strings.HasSuffix(place, ".name") || strings.HasSuffix(place, ".description") || strings.HasSuffix(place, ".uses") {
				if rendered != before[place] {
					t.Fatalf("%s changed from %q to %q", place, before[place], rendered)
				}
				continue
			}
			again, errs := expression.Parse(rendered)
			got, err := again.Evaluate(expression.Scope{Steps: scope.Steps, Jobs: scope.Jobs})
			if errs != nil || err != nil || got != want {
				t.Fatalf("%s: %q, once %q, evaluates to %q, %v; want %q", place, rendered, text, got, err, want)
			}
		}
	})
}

// handOn is a Workflow that hands its input on, with text around it: to a call, and to a script.
func handOn(before, after string) *workflowsv1alpha1.WorkflowSpec {
	text := before + "${{ inputs.v }}" + after
	return &workflowsv1alpha1.WorkflowSpec{
		Inputs: map[string]workflowsv1alpha1.Input{"v": {Required: true}},
		Jobs: map[string]workflowsv1alpha1.Job{
			"call": {Uses: "next", With: map[string]workflowsv1alpha1.InputValue{"v": workflowsv1alpha1.InputValue(text)}},
			"script": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{
				{Name: "s", Run: text, Env: map[string]workflowsv1alpha1.EnvValue{"V": workflowsv1alpha1.EnvValue(text)}},
			}},
		},
	}
}

// TestValuesComeThroughThreeLevelsOfCalls triggers a Workflow that calls one that calls one, as the controller does it:
// with is evaluated when the call is ready, and its values are bound and rendered into the callee.
func TestValuesComeThroughThreeLevelsOfCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	// Raw text around the reference, which cannot be read as an expression with it.
	around := []string{"", "$", "${", "{", "{{ x }}", "{ inputs.v }}", "'", "}}", "\n", "${{ '${{' }}", "${{ '' }}", "$$", "a"}
	for range 3000 {
		value := hostile[random.IntN(len(hostile))] + hostile[random.IntN(len(hostile))]
		want, handed := value, value
		for level := range 3 {
			before, after := around[random.IntN(len(around))], around[random.IntN(len(around))]
			run, errs := WorkflowRun(fmt.Sprint("level-", level), handOn(before, after), map[string]string{"v": handed})
			if strings.Contains(want, "\x00") && len(errs) > 0 {
				break
			}
			if len(errs) > 0 {
				t.Fatalf("level %d, %q between %q and %q: %v", level, handed, before, after, errs.ToAggregate())
			}
			want = constant(t, before) + want + constant(t, after)
			script := run.Spec.Jobs["script"].Steps[0]
			if diff := cmp.Diff([]string{want, want}, []string{constant(t, script.Run), constant(t, string(script.Env["V"]))}); diff != "" {
				t.Fatalf("level %d, script and variable (-want +got):\n%s", level, diff)
			}
			handed = constant(t, string(run.Spec.Jobs["call"].With["v"]))
			if diff := cmp.Diff(want, handed); diff != "" {
				t.Fatalf("level %d, value of the call (-want +got):\n%s", level, diff)
			}
		}
	}
}

// constant evaluates a text that reads nothing: a reference in it would be a value that was read.
func constant(t *testing.T, text string) string {
	t.Helper()
	template, errs := expression.Parse(text)
	if len(errs) > 0 || !template.IsConstant() {
		t.Fatalf("%q is no constant: %v, %v", text, errs, template.References())
	}
	value, err := template.Evaluate(expression.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// BenchmarkWorkflowRun renders a Workflow of the greatest number of steps, each with an input of each kind of value.
func BenchmarkWorkflowRun(b *testing.B) {
	spec := &workflowsv1alpha1.WorkflowSpec{Inputs: map[string]workflowsv1alpha1.Input{"a": {}, "b": {}}, Jobs: map[string]workflowsv1alpha1.Job{}}
	for j := range workflowsv1alpha1.MaxJobs {
		job := workflowsv1alpha1.Job{RunsOn: "bash"}
		for s := range workflowsv1alpha1.MaxSteps / workflowsv1alpha1.MaxJobs {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprint("s", s), Run: "echo ${{ inputs.a }}\n" + strings.Repeat("echo a line\n", 20) + "${{ inputs.b }}"})
		}
		spec.Jobs[fmt.Sprint("j", j)] = job
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := WorkflowRun("large", spec, map[string]string{"a": "plain", "b": "${{ tricky }}"}); len(errs) > 0 {
			b.Fatal(errs.ToAggregate())
		}
	}
}
