package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/validate"
)

// raw is an object as the API server sends it, from YAML.
func raw(t *testing.T, text string) runtime.RawExtension {
	t.Helper()
	if text == "" {
		return runtime.RawExtension{}
	}
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: out}
}

func request(t *testing.T, kind, before, after string) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "r", Operation: admissionv1.Create, Namespace: "ns",
		Kind: metav1.GroupVersionKind{Group: workflowsv1alpha1.GroupVersion.Group, Version: "v1alpha1", Kind: kind}, Object: raw(t, after)}}
	if before != "" {
		r.Operation, r.OldObject = admissionv1.Update, raw(t, before)
	}
	return r
}

const (
	good    = `{metadata: {name: d}, spec: {jobs: {a: {runs-on: sh, steps: [{name: s, run: x}]}}}}`
	calling = `{metadata: {name: d}, spec: {jobs: {a: {uses: nowhere}, b: {runs-on: sh, steps: [{name: s, uses: nothing}]}}}}`
	circle  = `{metadata: {name: d}, spec: {jobs: {a: {runs-on: sh, needs: [b], steps: [{name: s, run: x}]}, b: {runs-on: sh, needs: [a], steps: [{name: s, run: x}]}}}}`
	action  = `{metadata: {name: d}, spec: {steps: [{name: s, run: "${{ inputs.x }}"}]}}`

	circleWords = "the jobs need each other in a circle: a -> b -> a"
)

func TestHandle(t *testing.T) {
	cases := map[string]struct {
		kind, before, after string
		// want are the fields and words of the causes. Empty: it is admitted.
		want []string
	}{
		"a WorkflowRun of a call, which is not looked at":  {kind: "WorkflowRun", after: strings.Replace(circle, "name: d", "name: d, labels: {workflows.kruntimes.io/workflow-run-uid: u}", 1)},
		"a Workflow that works":                            {kind: "Workflow", after: good},
		"what is called need not be there":                 {kind: "Workflow", after: calling},
		"nor for a WorkflowRun":                            {kind: "WorkflowRun", after: calling},
		"a Workflow that can never work":                   {kind: "Workflow", after: circle, want: []string{`spec.jobs[a].needs[0]: Invalid value: "b": ` + circleWords}},
		"a WorkflowRun that can never work":                {kind: "WorkflowRun", after: circle, want: []string{`spec.jobs[a].needs[0]: Invalid value: "b": ` + circleWords}},
		"an Action that can never work":                    {kind: "Action", after: action, want: []string{`spec.steps[0].run: line 1, column 1: ${{ inputs.x }}: "x" is not an input of this Action: declare it in spec.inputs`}},
		"an update that changes nothing of an invalid one": {kind: "Workflow", before: circle, after: strings.Replace(circle, "name: d", "name: d, labels: {a: b}", 1)},
		"an update that takes a finalizer from an invalid one": {kind: "Action",
			before: strings.Replace(action, "name: d", "name: d, finalizers: [x/y]", 1), after: action},
		"an update of its status":                 {kind: "Workflow", before: circle, after: strings.Replace(circle, "metadata:", "status: {observedGeneration: 3}, metadata:", 1)},
		"an update that breaks it":                {kind: "Workflow", before: good, after: circle, want: []string{`spec.jobs[a].needs[0]: Invalid value: "b": ` + circleWords}},
		"an update that repairs it":               {kind: "Workflow", before: circle, after: good},
		"an update that empties a map of nothing": {kind: "Workflow", before: circle, after: strings.Replace(circle, "spec: {", "spec: {inputs: {}, ", 1)},
		"an invalid one that changes while it is being deleted": {kind: "Workflow", before: good,
			after: strings.Replace(circle, "name: d", `name: d, deletionTimestamp: "2026-07-06T12:00:00Z"`, 1)},
		"an update of a WorkflowRun, whose jobs never change": {kind: "WorkflowRun", before: circle, after: circle},
		"outputs that can never be evaluated": {kind: "WorkflowRun",
			after: strings.Replace(good, "name: d", `name: d, annotations: {kruntimes.io/workflow-output.o: "${{ jobs.z.outputs.o }}"}`, 1),
			want:  []string{`metadata.annotations[kruntimes.io/workflow-output.o]: line 1, column 1: ${{ jobs.z.outputs.o }}: "z" is not a job of this WorkflowRun`}},
		"another kind":             {kind: "Run", after: circle},
		"what cannot be read":      {kind: "Workflow", after: `{spec: {jobs: 7}}`},
		"nothing":                  {kind: "Action"},
		"a WorkflowRun of nothing": {kind: "WorkflowRun", after: "null", want: []string{"spec.jobs: Required value: name at least one job"}},
		"what it was is no more":   {kind: "Workflow", before: `{spec: 7}`, after: circle},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := NewWebhook(logr.Discard()).Handle(t.Context(), request(t, tc.kind, tc.before, tc.after))
			var got []string
			if response.Result.Details != nil {
				for _, cause := range response.Result.Details.Causes {
					got = append(got, cause.Field+": "+cause.Message)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || response.Allowed != (len(tc.want) == 0) {
				t.Errorf("allowed %t, causes (-want +got):\n%s", response.Allowed, diff)
			}
		})
	}
}

// TestTheAnswerIsThatOfTheAPIServer holds the whole answer.
func TestTheAnswerIsThatOfTheAPIServer(t *testing.T) {
	got := NewWebhook(logr.Discard()).Handle(t.Context(), request(t, "WorkflowRun", "", circle))
	want := admissionv1.AdmissionResponse{UID: "r", Result: &metav1.Status{
		Status: "Failure", Code: 422, Reason: "Invalid",
		Message: `WorkflowRun.workflows.kruntimes.io "d" is invalid: spec.jobs[a].needs[0]: Invalid value: "b": ` + circleWords,
		Details: &metav1.StatusDetails{Group: "workflows.kruntimes.io", Kind: "WorkflowRun", Name: "d", Causes: []metav1.StatusCause{
			{Type: "FieldValueInvalid", Field: "spec.jobs[a].needs[0]", Message: `Invalid value: "b": ` + circleWords}}},
	}}
	if diff := cmp.Diff(want, got.AdmissionResponse); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// TestAnAnswerIsBounded sends what is wrong everywhere, in long words.
func TestAnAnswerIsBounded(t *testing.T) {
	spec := workflowsv1alpha1.WorkflowRun{Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{}}}
	spec.Annotations = map[string]string{}
	for i := range 400 {
		name := fmt.Sprintf("%03d%s", i, strings.Repeat("ä!", 150))
		spec.Spec.Jobs[name] = workflowsv1alpha1.Job{Needs: []string{name}}
		spec.Annotations[workflowsv1alpha1.AnnotationOutputPrefix+name] = "${{" + name
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	response := NewWebhook(logr.Discard()).Handle(t.Context(), request(t, "WorkflowRun", "", string(text)))
	answer, err := json.Marshal(response.AdmissionResponse)
	if err != nil {
		t.Fatal(err)
	}
	causes := response.Result.Details.Causes
	if most := 2 * (validate.MaxErrors + 1); response.Allowed || len(causes) > most || len(causes) < validate.MaxErrors {
		t.Errorf("allowed %t, %d causes, want from %d to %d", response.Allowed, len(causes), validate.MaxErrors, most)
	}
	if len(response.Result.Message) > maxMessage || len(answer) > 512<<10 {
		t.Errorf("a message of %d bytes in an answer of %d", len(response.Result.Message), len(answer))
	}
}

// TestAPanicIsNoAnswer holds that the API server hears nothing of a bug here, which it takes for a failure, and not a refusal.
func TestAPanicIsNoAnswer(t *testing.T) {
	webhook := NewWebhook(logr.Discard())
	webhook.Handler = admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { panic("a bug") })
	defer func() {
		if recover() == nil {
			t.Error("the panic was turned into an answer")
		}
	}()
	webhook.Handle(t.Context(), request(t, "Workflow", "", good))
}

func FuzzHandle(f *testing.F) {
	for _, text := range []string{good, calling, circle, action, "{}", "null"} {
		for _, kind := range []string{"Workflow", "Action", "WorkflowRun"} {
			f.Add(kind, text)
		}
	}
	f.Fuzz(func(t *testing.T, kind, text string) {
		out, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create,
			Kind: metav1.GroupVersionKind{Kind: kind}, Object: runtime.RawExtension{Raw: out}}}
		response := NewWebhook(logr.Discard()).Handle(t.Context(), r)
		if !response.Allowed && (response.Result.Code != 422 || len(response.Result.Details.Causes) == 0) {
			t.Errorf("refused without a cause: %+v", response.Result)
		}
	})
}
