package workflows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
	"kruntimes.io/kruntimes/workflow/calls"
	"kruntimes.io/kruntimes/workflow/validate"
)

// What definitions of these tests are made of.
const (
	leaf         = `jobs: {j: {runs-on: sh, steps: [{name: s, run: x}]}}`
	leafRequires = `{inputs: {x: {required: true}}, jobs: {j: {runs-on: sh, steps: [{name: s, run: x}]}}}`
	leafAccepts  = `{inputs: {x: {default: v}}, jobs: {j: {runs-on: sh, steps: [{name: s, run: x}]}}}`
)

// verdict is condition Ready in one line, once it is about the present spec; empty before.
func verdict(ctx context.Context, kind, namespace, name string) (string, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(workflowsv1alpha1.GroupVersion.WithKind(kind))
	if err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
		return "", err
	}
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	if observed != u.GetGeneration() || len(conditions) != 1 {
		return "", nil
	}
	c := conditions[0].(map[string]any)
	text := fmt.Sprintf("%s %s", c["status"], c["reason"])
	if c["message"] != "" {
		text += fmt.Sprintf(": %s", c["message"])
	}
	return text, nil
}

// expectVerdicts waits until definitions, by name, have exactly these verdicts. The kind is Workflow unless a name begins with
// "Action ".
func expectVerdicts(t *testing.T, namespace, when string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s (-want +got):\n%s", when, cmp.Diff(want, got))
		}
	})
	cluster.Eventually(t, "the verdicts "+when, func(ctx context.Context) (bool, error) {
		got = map[string]string{}
		for key := range want {
			kind, name := "Workflow", key
			if rest, isAction := strings.CutPrefix(key, "Action "); isAction {
				kind, name = "Action", rest
			}
			text, err := verdict(ctx, kind, namespace, name)
			if err != nil {
				return false, err
			}
			got[key] = text
		}
		return cmp.Equal(want, got), nil
	})
}

// declare creates a definition, or gives it another spec.
func declare(t *testing.T, kind, namespace, name, spec string) {
	t.Helper()
	u := manifest(t, kind, namespace, name, spec)
	err := shared.Admin().Create(t.Context(), u)
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		seen := u.DeepCopy()
		if err = shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(u), seen); err != nil {
			break
		}
		seen.Object["spec"] = u.Object["spec"]
		err = shared.Admin().Update(t.Context(), seen)
	}
	if err != nil {
		t.Fatalf("declaring %s %s: %v", kind, name, err)
	}
}

// withdraw deletes a definition.
func withdraw(t *testing.T, kind, namespace, name string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(workflowsv1alpha1.GroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	shared.Delete(t, u)
}

// TestReadyFollowsWhatIsCalled has callees of a Workflow appear, change and go: also those of its callees.
func TestReadyFollowsWhatIsCalled(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	declare(t, "Workflow", ns, "top", `jobs: {t: {uses: middle}}`)
	declare(t, "Workflow", ns, "middle", `jobs: {m: {uses: leaf}, o: {runs-on: sh, steps: [{name: s, uses: tool, with: {x: v}}]}}`)
	none := `spec.jobs[m].uses: Not found: "leaf": there is no Workflow "leaf" in this namespace`
	tool := `spec.jobs[o].steps[0].uses: Not found: "tool": there is no Action "tool" in this namespace`
	expectVerdicts(t, ns, "without callees", map[string]string{"middle": "False Unresolved: " + none + "; " + tool,
		"top": `False Unresolved: spec.jobs[t].uses: Invalid value: "middle": Workflow "middle": spec.jobs[m].uses: there is no Workflow "leaf" in this namespace, and 1 more`})

	declare(t, "Workflow", ns, "leaf", leaf)
	declare(t, "Action", ns, "tool", `{inputs: {x: {}}, steps: [{name: s, run: x}]}`)
	good := map[string]string{"top": "True Valid", "middle": "True Valid", "leaf": "True Valid", "Action tool": "True Valid"}
	expectVerdicts(t, ns, "with all callees", good)

	declare(t, "Workflow", ns, "leaf", leafRequires)
	required := `Workflow "leaf" requires the input "x": give it a value`
	expectVerdicts(t, ns, "without an input that is required", map[string]string{"leaf": "True Valid", "middle": "False Unresolved: spec.jobs[m].with: Required value: " + required,
		"top": `False Unresolved: spec.jobs[t].uses: Invalid value: "middle": Workflow "middle": spec.jobs[m].with: ` + required})
	declare(t, "Workflow", ns, "leaf", leafAccepts)
	expectVerdicts(t, ns, "with an input that has a default", good)

	withdraw(t, "Workflow", ns, "leaf")
	delete(good, "leaf")
	expectVerdicts(t, ns, "without the leaf", map[string]string{"middle": "False Unresolved: " + none})
	withdraw(t, "Action", ns, "tool")
	expectVerdicts(t, ns, "without the tool", map[string]string{"middle": "False Unresolved: " + none + "; " + tool})
	declare(t, "Action", ns, "tool", `{inputs: {x: {}}, steps: [{name: s, run: "${{ inputs.z }}"}]}`)
	wrong := `spec.steps[0].run: line 1, column 1: ${{ inputs.z }}: "z" is not an input of this Action: declare it in spec.inputs`
	expectVerdicts(t, ns, "with a tool that is invalid", map[string]string{"Action tool": "False Invalid: " + wrong})
	declare(t, "Workflow", ns, "leaf", leaf)
	declare(t, "Action", ns, "tool", `{inputs: {x: {}}, steps: [{name: s, run: x}]}`)
	expectVerdicts(t, ns, "with all callees again", map[string]string{"top": "True Valid", "middle": "True Valid", "leaf": "True Valid", "Action tool": "True Valid"})
}

// TestCyclesAreUnresolved closes circles and opens them.
func TestCyclesAreUnresolved(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	declare(t, "Workflow", ns, "a", `jobs: {j: {uses: b}}`)
	declare(t, "Workflow", ns, "b", `jobs: {j: {uses: a}}`)
	declare(t, "Workflow", ns, "self", `jobs: {j: {uses: self}}`)
	declare(t, "Workflow", ns, "outside", `jobs: {j: {uses: a}}`)
	cycle := func(uses, path string) string {
		return fmt.Sprintf("False Unresolved: spec.jobs[j].uses: Invalid value: %q: workflow call cycle: %s", uses, path)
	}
	expectVerdicts(t, ns, "in circles", map[string]string{
		"a": cycle("b", "a -> b -> a"), "b": cycle("a", "b -> a -> b"), "self": cycle("self", "self -> self"), "outside": cycle("a", "a -> b -> a")})
	declare(t, "Workflow", ns, "b", leaf)
	declare(t, "Workflow", ns, "self", `jobs: {j: {uses: a}}`)
	expectVerdicts(t, ns, "when the circles are open", map[string]string{"a": "True Valid", "b": "True Valid", "self": "True Valid", "outside": "True Valid"})
}

// writes counts the writes of status of the definitions of a namespace.
func writes(namespace string, counter *atomic.Int64) func(*manager.Options) {
	return func(o *manager.Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
				path := r.URL.Path
				if r.Method != http.MethodGet && strings.Contains(path, "/namespaces/"+namespace+"/") && strings.HasSuffix(path, "/status") {
					counter.Add(1)
				}
				return next.RoundTrip(r)
			})
		})
	}
}

// TestManyCallersSettleWithoutAStorm changes what 300 Workflows call. Each of them is written once for each change, and not
// at all when nothing is new for it, nor when a manager starts.
func TestManyCallersSettleWithoutAStorm(t *testing.T) {
	const callers = 300
	ns := shared.Namespace(t)
	var written atomic.Int64
	stop := shared.StartManager(t, writes(ns, &written))
	declare(t, "Workflow", ns, "leaf", leaf)
	for i := range callers {
		declare(t, "Workflow", ns, fmt.Sprintf("caller-%03d", i), `jobs: {j: {uses: leaf}, k: {uses: leaf}}`)
	}
	settled := func(when, prefix string, most int64) {
		t.Helper()
		cluster.Eventually(t, "all callers "+when, func(ctx context.Context) (bool, error) {
			var list workflowsv1alpha1.WorkflowList
			if err := shared.Admin().List(ctx, &list, client.InNamespace(ns)); err != nil {
				return false, err
			}
			right := 0
			for i := range list.Items {
				ready := meta.FindStatusCondition(list.Items[i].Status.Conditions, workflowsv1alpha1.ConditionReady)
				if strings.HasPrefix(list.Items[i].Name, "caller-") && ready != nil && strings.HasPrefix(fmt.Sprint(ready.Status, " ", ready.Reason, " ", ready.Message), prefix) {
					right++
				}
			}
			return right == callers, nil
		})
		if n := written.Swap(0); n > most {
			t.Errorf("%s: %d writes of status, want up to %d", when, n, most)
		} else {
			t.Logf("%s: %d writes of status", when, n)
		}
	}
	// A cache may lag behind: then a write is refused as a conflict, and made once more. A storm would be hundreds more.
	const few = callers / 4
	settled("at first", "True Valid", callers+1+few)
	withdraw(t, "Workflow", ns, "leaf")
	settled("without the leaf", "False Unresolved ", callers+few)
	declare(t, "Workflow", ns, "leaf", leaf)
	settled("with the leaf", "True Valid", callers+1+few)
	for range 3 { // no news for the callers; only the leaf's own status names another generation
		declare(t, "Workflow", ns, "leaf", leafAccepts)
		declare(t, "Workflow", ns, "leaf", leaf)
	}
	if err := shared.Admin().Patch(t.Context(), manifest(t, "Workflow", ns, "leaf", leaf), mergePatch(`{"metadata":{"labels":{"team":"a"}}}`)); err != nil {
		t.Fatal(err)
	}
	expectVerdicts(t, ns, "of the leaf", map[string]string{"leaf": "True Valid"})
	settled("after changes that do not matter to them", "True Valid", few)
	stop()
	shared.StartManager(t, writes(ns, &written))
	declare(t, "Workflow", ns, "last", leaf)
	expectVerdicts(t, ns, "of what is new to a new manager", map[string]string{"last": "True Valid"})
	settled("after a restart", "True Valid", few)
}

// TestWhatBreaksIsTold tells in an event of a Workflow that could be used, and cannot any more.
func TestWhatBreaksIsTold(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	declare(t, "Workflow", ns, "caller", `jobs: {j: {uses: leaf}}`)
	declare(t, "Workflow", ns, "leaf", leaf)
	expectVerdicts(t, ns, "before", map[string]string{"caller": "True Valid", "leaf": "True Valid"})
	withdraw(t, "Workflow", ns, "leaf")
	shared.ExpectEvents(t, ns, map[string][]string{"workflow/caller": {
		`Warning Unresolved: it cannot be used any more: spec.jobs[j].uses: Not found: "leaf": there is no Workflow "leaf" in this namespace`}}, nil)
}

// stored finds definitions on the API server.
type stored struct {
	t         *testing.T
	namespace string
}

func (s stored) Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error) {
	w := &workflowsv1alpha1.Workflow{}
	err := shared.Admin().Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, w)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &w.Spec, nil
}

func (s stored) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	a := &workflowsv1alpha1.Action{}
	err := shared.Admin().Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, a)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &a.Spec, nil
}

// judged returns the verdicts that all definitions of a namespace should come to, from what is stored at rest.
func (s stored) judged() map[string]string {
	s.t.Helper()
	var workflows workflowsv1alpha1.WorkflowList
	var actions workflowsv1alpha1.ActionList
	if err := errors.Join(shared.Admin().List(s.t.Context(), &workflows, client.InNamespace(s.namespace)),
		shared.Admin().List(s.t.Context(), &actions, client.InNamespace(s.namespace))); err != nil {
		s.t.Fatal(err)
	}
	text := func(invalid, unresolved field.ErrorList) string {
		switch {
		case len(invalid) > 0:
			return "False Invalid: " + validate.Joined(invalid, 1<<14)
		case len(unresolved) > 0:
			return "False Unresolved: " + validate.Joined(unresolved, 1<<14)
		}
		return "True Valid"
	}
	want := map[string]string{}
	for i := range workflows.Items {
		w := &workflows.Items[i]
		unresolved, err := calls.Workflow(s, w.Name, &w.Spec)
		if err != nil {
			s.t.Fatal(err)
		}
		want[w.Name] = text(validate.Workflow(&w.Spec), unresolved)
	}
	for i := range actions.Items {
		want["Action "+actions.Items[i].Name] = text(validate.Action(&actions.Items[i].Spec), nil)
	}
	return want
}

// TestReadyIsRightHoweverDefinitionsCameAbout makes, changes and deletes definitions at random, restarts the manager in between, and
// compares what all of them come to with what is stored.
func TestReadyIsRightHoweverDefinitionsCameAbout(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			ns := shared.Namespace(t)
			stop := shared.StartManager(t)
			there := map[string]bool{}
			for round := range 80 {
				kind, name := "Workflow", names[r.IntN(len(names))]
				spec := randomWorkflow(r, names)
				if r.IntN(3) == 0 {
					kind, spec = "Action", []string{`steps: [{name: s, run: x}]`, `{inputs: {x: {required: true}}, steps: [{name: s, run: x}]}`,
						`steps: [{name: s, run: "${{ x }}"}]`}[r.IntN(3)]
				}
				if key := kind + name; there[key] && r.IntN(3) == 0 {
					withdraw(t, kind, ns, name)
					delete(there, key)
				} else {
					declare(t, kind, ns, name, spec)
					there[key] = true
				}
				if round == 40 {
					stop()
					stop = shared.StartManager(t)
				}
			}
			want := stored{t, ns}.judged()
			expectVerdicts(t, ns, "at rest", want)
			kinds := map[string]int{}
			for _, text := range want {
				kinds[strings.Fields(text)[1]]++
			}
			t.Logf("%d definitions: %v", len(want), slices.Sorted(maps.Keys(kinds)))
		})
	}
}

// randomWorkflow makes a Workflow that calls up to three others, and an Action.
func randomWorkflow(r *rand.Rand, names []string) string {
	jobs := []string{`i: {runs-on: sh, steps: [{name: s, run: x}]}`}
	for i := range r.IntN(3) {
		with := []string{"", ", with: {x: v}"}[r.IntN(2)]
		jobs = append(jobs, fmt.Sprintf("j%d: {uses: %s%s}", i, names[r.IntN(len(names))], with))
	}
	if r.IntN(2) == 0 {
		jobs = append(jobs, fmt.Sprintf("k: {runs-on: sh, steps: [{name: s, uses: %s}]}", names[r.IntN(len(names))]))
	}
	inputs := []string{"", "inputs: {x: {}}, ", "inputs: {x: {required: true}}, "}[r.IntN(3)]
	if r.IntN(8) == 0 {
		jobs = append(jobs, `l: {runs-on: sh, needs: [l], steps: [{name: s, run: x}]}`)
	}
	return "{" + inputs + "jobs: {" + strings.Join(jobs, ", ") + "}}"
}
