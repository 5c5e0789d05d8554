package definitions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// store is an API server with these definitions. fail, where it is not nil, answers writes.
func store(t *testing.T, fail func() error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := workflowsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).
		WithIndex(&workflowsv1alpha1.Workflow{}, indexCalls, callsOf).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if fail != nil {
				return fail()
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
}

// workflow makes a Workflow whose jobs are written in YAML.
func workflow(t *testing.T, name, jobs string) *workflowsv1alpha1.Workflow {
	t.Helper()
	w := &workflowsv1alpha1.Workflow{}
	if err := yaml.UnmarshalStrict([]byte(`{"spec": {"jobs": `+jobs+`}}`), w); err != nil {
		t.Fatal(err)
	}
	w.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1}
	return w
}

func action(name string) *workflowsv1alpha1.Action {
	return &workflowsv1alpha1.Action{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1},
		Spec: workflowsv1alpha1.ActionSpec{Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "x"}}}}
}

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
}

func TestCallersAreFoundOnceHoweverFar(t *testing.T) {
	c := store(t, nil,
		workflow(t, "direct", `{a: {uses: leaf}, b: {uses: leaf}}`),
		workflow(t, "indirect", `{a: {uses: direct}}`),
		workflow(t, "both", `{a: {uses: direct}, b: {uses: leaf}}`),
		workflow(t, "self", `{a: {uses: self}}`),
		workflow(t, "left", `{a: {uses: right}}`),
		workflow(t, "right", `{a: {uses: left}, b: {uses: leaf}}`),
		workflow(t, "steps", `{a: {runs-on: sh, steps: [{name: s, uses: leaf}, {name: t, run: x}, {name: u, uses: leaf}]}}`),
		workflow(t, "of-steps", `{a: {uses: steps}}`),
		workflow(t, "nothing", `{a: {runs-on: sh, steps: [{name: s, run: x}]}}`))
	r := &WorkflowReconciler{Client: c}
	cases := map[string]struct {
		called client.Object
		want   []string
	}{
		"a Workflow":                      {workflow(t, "leaf", `{}`), []string{"both", "direct", "indirect", "left", "right"}},
		"an Action of the same name":      {action("leaf"), []string{"of-steps", "steps"}},
		"one that calls itself":           {workflow(t, "self", `{}`), []string{"self"}},
		"one of a circle":                 {workflow(t, "left", `{}`), []string{"left", "right"}},
		"one that nobody calls":           {workflow(t, "nothing", `{}`), nil},
		"one that is called by one other": {workflow(t, "direct", `{}`), []string{"both", "indirect"}},
		"one of another namespace":        {&workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "leaf"}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, request := range r.callersOf(t.Context(), tc.called) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("callers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsNews holds that no write of a status, and no change of metadata, wakes a caller.
func TestWhatIsNews(t *testing.T) {
	at := func(generation int64, uid, version string) *workflowsv1alpha1.Workflow {
		return &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Name: "w", Generation: generation, UID: types.UID(uid), ResourceVersion: version}}
	}
	p, mine := changes(), own()
	cases := map[string]struct{ got, want bool }{
		"itself: it was there":           {mine.Create(event.CreateEvent{Object: at(1, "a", "1"), IsInInitialList: true}), true},
		"itself: it is replaced":         {mine.Update(event.UpdateEvent{ObjectOld: at(1, "a", "1"), ObjectNew: at(1, "b", "2")}), true},
		"itself: its status changes":     {mine.Update(event.UpdateEvent{ObjectOld: at(1, "a", "1"), ObjectNew: at(1, "a", "2")}), false},
		"it appears":                     {p.Create(event.CreateEvent{Object: at(1, "a", "1")}), true},
		"it was there":                   {p.Create(event.CreateEvent{Object: at(1, "a", "1"), IsInInitialList: true}), false},
		"its spec changes":               {p.Update(event.UpdateEvent{ObjectOld: at(1, "a", "1"), ObjectNew: at(2, "a", "2")}), true},
		"its status or metadata changes": {p.Update(event.UpdateEvent{ObjectOld: at(1, "a", "1"), ObjectNew: at(1, "a", "2")}), false},
		"it is replaced":                 {p.Update(event.UpdateEvent{ObjectOld: at(1, "a", "1"), ObjectNew: at(1, "b", "2")}), true},
		"it is gone":                     {p.Delete(event.DeleteEvent{Object: at(1, "a", "1")}), true},
		"anything else":                  {p.Generic(event.GenericEvent{Object: at(1, "a", "1")}), false},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s: news %t, want %t", name, tc.got, tc.want)
		}
	}
}

// TestReconcileSaysWhatIsWrong judges a set of definitions, each of them twice: the second time nothing is written.
func TestReconcileSaysWhatIsWrong(t *testing.T) {
	broken := action("broken")
	broken.Spec.Steps[0].Run = "${{ x }}"
	c := store(t, nil, action("plain"), broken,
		workflow(t, "good", `{a: {runs-on: sh, steps: [{name: s, uses: plain}]}}`),
		workflow(t, "caller", `{a: {uses: good}}`),
		workflow(t, "invalid", `{a: {runs-on: sh}}`),
		workflow(t, "of-invalid", `{a: {uses: invalid}}`),
		workflow(t, "of-nothing", `{a: {uses: nowhere}}`),
		workflow(t, "of-broken", `{a: {runs-on: sh, steps: [{name: s, uses: broken}]}}`),
		workflow(t, "surplus", `{a: {uses: good, with: {x: y}}}`),
		workflow(t, "a", `{a: {uses: b}}`), workflow(t, "b", `{b: {uses: a}}`), workflow(t, "self", `{a: {uses: self}}`))
	clock := testingclock.NewFakePassiveClock(now)
	workflows, actions := &WorkflowReconciler{Client: c, Clock: clock}, &ActionReconciler{Client: c, Clock: clock}
	judge := func() {
		for _, name := range []string{"good", "caller", "invalid", "of-invalid", "of-nothing", "of-broken", "surplus", "a", "b", "self", "gone"} {
			if got, err := workflows.Reconcile(t.Context(), named(name)); err != nil || got != (reconcile.Result{}) {
				t.Errorf("Workflow %s: %+v, %v", name, got, err)
			}
		}
		for _, name := range []string{"plain", "broken", "gone"} {
			if got, err := actions.Reconcile(t.Context(), named(name)); err != nil || got != (reconcile.Result{}) {
				t.Errorf("Action %s: %+v, %v", name, got, err)
			}
		}
	}
	judge()
	got, versions := verdictsOf(t, c)
	want := map[string]string{
		"Action broken":       `False Invalid: spec.steps[0].run: line 1, column 1: ${{ x }}: unknown context "x": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'`,
		"Action plain":        "True Valid: ",
		"Workflow good":       "True Valid: ",
		"Workflow caller":     "True Valid: ",
		"Workflow invalid":    "False Invalid: spec.jobs[a]: Required value: a job has either steps or uses, the name of a Workflow",
		"Workflow of-nothing": `False Unresolved: spec.jobs[a].uses: Not found: "nowhere": there is no Workflow "nowhere" in this namespace`,
		"Workflow a":          `False Unresolved: spec.jobs[a].uses: Invalid value: "b": workflow call cycle: a -> b -> a`,
		"Workflow b":          `False Unresolved: spec.jobs[b].uses: Invalid value: "a": workflow call cycle: b -> a -> b`,
		"Workflow self":       `False Unresolved: spec.jobs[a].uses: Invalid value: "self": workflow call cycle: self -> self`,
	}
	for name, prefix := range map[string]string{ // the rest of the words are those of package calls
		"Workflow of-invalid": `False Unresolved: spec.jobs[a].uses: Invalid value: "invalid": Workflow "invalid" is invalid: `,
		"Workflow of-broken":  `False Unresolved: spec.jobs[a].steps[0].uses: Invalid value: "broken": Action "broken" is invalid: `,
		"Workflow surplus":    `False Unresolved: spec.jobs[a].with[x]: `,
	} {
		if !strings.HasPrefix(got[name], prefix) {
			t.Errorf("%s: %q, want it to begin with %q", name, got[name], prefix)
		}
		delete(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	clock.SetTime(now.Add(time.Hour))
	judge()
	if _, again := verdictsOf(t, c); !cmp.Equal(versions, again) {
		t.Errorf("nothing is new, but something was written (-before +after):\n%s", cmp.Diff(versions, again))
	}
}

// verdictsOf returns the condition of every definition, and its version.
func verdictsOf(t *testing.T, c client.Client) (verdicts, versions map[string]string) {
	t.Helper()
	verdicts, versions = map[string]string{}, map[string]string{}
	add := func(what string, object client.Object, status *workflowsv1alpha1.DefinitionStatus) {
		ready := readyOf(status)
		verdicts[what] = fmt.Sprintf("%s %s: %s", ready.Status, ready.Reason, ready.Message)
		versions[what] = object.GetResourceVersion()
		if status.ObservedGeneration != object.GetGeneration() {
			t.Errorf("%s: observedGeneration %d, want %d", what, status.ObservedGeneration, object.GetGeneration())
		}
	}
	var workflows workflowsv1alpha1.WorkflowList
	var actions workflowsv1alpha1.ActionList
	if err := errors.Join(c.List(t.Context(), &workflows), c.List(t.Context(), &actions)); err != nil {
		t.Fatal(err)
	}
	for i := range workflows.Items {
		add("Workflow "+workflows.Items[i].Name, &workflows.Items[i], &workflows.Items[i].Status)
	}
	for i := range actions.Items {
		add("Action "+actions.Items[i].Name, &actions.Items[i], &actions.Items[i].Status)
	}
	return verdicts, versions
}

func TestWritesThatFail(t *testing.T) {
	resource := schema.GroupResource{Group: "workflows.kruntimes.io", Resource: "workflows"}
	cases := map[string]struct {
		err     error
		want    reconcile.Result
		wantErr string
	}{
		"somebody else was faster": {apierrors.NewConflict(resource, "w", errors.New("changed")), reconcile.Result{RequeueAfter: conflictDelay}, ""},
		"it is gone":               {apierrors.NewNotFound(resource, "w"), reconcile.Result{}, ""},
		"the API server is away":   {errors.New("no route"), reconcile.Result{}, "patching the status: no route"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := store(t, func() error { return tc.err }, workflow(t, "w", `{a: {uses: w}}`), action("w"))
			clock := testingclock.NewFakePassiveClock(now)
			for _, r := range []reconcile.Reconciler{&WorkflowReconciler{Client: c, Clock: clock}, &ActionReconciler{Client: c, Clock: clock}} {
				got, err := r.Reconcile(t.Context(), named("w"))
				message := ""
				if err != nil {
					message = err.Error()
				}
				if got != tc.want || message != tc.wantErr {
					t.Errorf("%T: got %+v, %q, want %+v, %q", r, got, message, tc.want, tc.wantErr)
				}
			}
		})
	}
}

// TestTheCacheHoldsOneCopy drops what nobody reads of a definition, and nothing else.
func TestTheCacheHoldsOneCopy(t *testing.T) {
	w := workflow(t, "w", `{a: {uses: w}}`)
	want := w.DeepCopy()
	want.Annotations = map[string]string{"team": "a"}
	w.Annotations = map[string]string{"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
	w.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	got, err := trim(w)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trimmed (-want +got):\n%s", diff)
	}
}
