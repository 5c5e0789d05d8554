package admission

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// What definitions are made of.
const (
	inlineJob = `{runs-on: sh, steps: [{name: s, run: x}]}`
	circle    = `{jobs: {a: {runs-on: sh, needs: [b], steps: [{name: s, run: x}]}, b: {runs-on: sh, needs: [a], steps: [{name: s, run: x}]}}}`

	circleWords = `spec.jobs[a].needs[0]: Invalid value: "b": the jobs need each other in a circle: a -> b -> a`
)

// ofYAML makes an object with a spec that is written in YAML.
func ofYAML[T client.Object](t *testing.T, object T, namespace, name, spec string) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(`{"spec": `+spec+`}`), object); err != nil {
		t.Fatalf("decoding %s: %v", spec, err)
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func newWorkflow(t *testing.T, namespace, name, spec string) *workflowsv1alpha1.Workflow {
	t.Helper()
	return ofYAML(t, &workflowsv1alpha1.Workflow{}, namespace, name, spec)
}

func newAction(t *testing.T, namespace, name, spec string) *workflowsv1alpha1.Action {
	t.Helper()
	return ofYAML(t, &workflowsv1alpha1.Action{}, namespace, name, spec)
}

// startEarlyWords runs a manager that the API server asks about definitions in the namespace, from the moment on at which it
// has answered.
func startEarlyWords(t *testing.T, namespace string) (stop func()) {
	t.Helper()
	address := ""
	stop = shared.StartManager(t, func(o *manager.Options) { address = o.Admission.Address })
	shared.AskForEarlyWords(t, namespace, address)
	refused(t, "a probe", func(ctx context.Context) error {
		return shared.Admin().Create(ctx, newWorkflow(t, namespace, "probe", circle), client.DryRunAll)
	})
	return stop
}

// refused asks until it is refused, and returns fields and words of the causes. On a machine that is busy an answer may come too
// late, which admits: ask for dry runs.
func refused(t *testing.T, what string, ask func(context.Context) error) []string {
	t.Helper()
	var causes []string
	cluster.Eventually(t, what+" to be refused", func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		var status apierrors.APIStatus
		if err == nil {
			return false, nil
		}
		if !errors.As(err, &status) || status.Status().Code != 422 || !strings.HasPrefix(status.Status().Message, `admission webhook "validity.workflows.kruntimes.io" denied the request: `) {
			return false, err
		}
		causes = nil
		for _, cause := range status.Status().Details.Causes {
			causes = append(causes, cause.Field+": "+cause.Message)
		}
		return true, nil
	})
	return causes
}

// TestWhatCanNeverWorkIsRefusedAtOnce says all that is wrong with it, and leaves alone what may work.
func TestWhatCanNeverWorkIsRefusedAtOnce(t *testing.T) {
	ns := shared.Namespace(t)
	startEarlyWords(t, ns)
	declared := ofYAML(t, &workflowsv1alpha1.WorkflowRun{}, ns, "r", `{jobs: {a: `+inlineJob+`}}`)
	declared.Annotations = map[string]string{workflowsv1alpha1.AnnotationOutputPrefix + "o": "${{ jobs.b.outputs.x }}"}
	wrong := map[string]struct {
		object client.Object
		want   []string
	}{
		"a Workflow with a circle":    {newWorkflow(t, ns, "w", circle), []string{circleWords}},
		"a WorkflowRun with a circle": {ofYAML(t, &workflowsv1alpha1.WorkflowRun{}, ns, "r", circle), []string{circleWords}},
		"a Workflow with much that is wrong": {newWorkflow(t, ns, "w", `{outputs: {o: {value: "${{ jobs.c.outputs.o }}"}}, jobs: {a: {runs-on: sh, env: {A: "${{ nothing"},
			steps: [{name: s, run: "${{ steps.t.outputs.x }} ${{ inputs.y }}"}]}}}`), []string{
			`spec.jobs[a].env[A]: line 1, column 1: ${{ nothing: the expression is not closed: end it with }}, or write ${{ '${{' }} for the characters ${{ themselves`,
			`spec.jobs[a].steps[0].run: line 1, column 1: ${{ steps.t.outputs.x }}: "t" is not a step of this job`,
			`spec.jobs[a].steps[0].run: line 1, column 26: ${{ inputs.y }}: "y" is not an input of this Workflow: declare it in spec.inputs`,
			`spec.outputs[o].value: line 1, column 1: ${{ jobs.c.outputs.o }}: "c" is not a job of this Workflow`,
		}},
		"an Action that reads from a job": {newAction(t, ns, "a", `{steps: [{name: s, run: "${{ jobs.a.outputs.x }}"}]}`), []string{
			"spec.steps[0].run: line 1, column 1: ${{ jobs.a.outputs.x }}: an Action sees its own inputs and steps only: hand the value to it in an input"}},
		"a WorkflowRun with outputs of a job that is not there": {declared, []string{
			`metadata.annotations[kruntimes.io/workflow-output.o]: line 1, column 1: ${{ jobs.b.outputs.x }}: "b" is not a job of this WorkflowRun`}},
	}
	for name, tc := range wrong {
		got := refused(t, name, func(ctx context.Context) error {
			return shared.Admin().Create(ctx, tc.object.DeepCopyObject().(client.Object), client.DryRunAll)
		})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, object := range map[string]client.Object{
		"a Workflow that calls what is not there": newWorkflow(t, ns, "caller", `{jobs: {a: {uses: nowhere}, b: {runs-on: sh, steps: [{name: s, uses: nothing}]}}}`),
		"a Workflow that calls itself":            newWorkflow(t, ns, "self", `{jobs: {a: {uses: self}}}`),
		"a WorkflowRun that calls":                ofYAML(t, &workflowsv1alpha1.WorkflowRun{}, ns, "calls", `{jobs: {a: {uses: nowhere}}}`),
		"an Action":                               newAction(t, ns, "action", `{inputs: {x: {}}, steps: [{name: s, env: {X: "${{ inputs.x }}"}, run: x}]}`),
	} {
		expectError(t, name, shared.Admin().Create(t.Context(), object), "")
	}
}

// TestAStoredDefinitionThatIsInvalidIsNoTrap stores one while nobody is asked, and handles it when somebody is.
func TestAStoredDefinitionThatIsInvalidIsNoTrap(t *testing.T) {
	ns := shared.Namespace(t)
	workflow, action := newWorkflow(t, ns, "w", circle), newAction(t, ns, "a", `{steps: [{name: s, run: "${{ x }}"}]}`)
	run := ofYAML(t, &workflowsv1alpha1.WorkflowRun{}, ns, "r", circle)
	for _, object := range []client.Object{workflow, action, run} {
		object.SetFinalizers([]string{"example.com/hold"})
		shared.Create(t, object)
	}
	startEarlyWords(t, ns)
	admin := shared.Admin()
	patch := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	for _, object := range []client.Object{workflow, action, run} {
		what := fmt.Sprintf("%T: ", object)
		expectError(t, what+"a label", admin.Patch(t.Context(), object, patch(`{"metadata":{"labels":{"team":"a"}}}`)), "")
		expectError(t, what+"its status", admin.Status().Patch(t.Context(), object, patch(`{"status":{"observedGeneration":1}}`)), "")
		expectError(t, what+"the same once more", admin.Update(t.Context(), object), "")
	}
	expectError(t, "the cancel of the WorkflowRun", admin.Patch(t.Context(), run, patch(`{"spec":{"cancelRequested":true}}`)), "")
	got := refused(t, "another circle", func(ctx context.Context) error {
		return admin.Patch(ctx, workflow.DeepCopy(), patch(`{"spec":{"jobs":{"c":`+`{"runs-on":"sh","steps":[{"name":"s","run":"x"}]}`+`}}}`), client.DryRunAll)
	})
	if diff := cmp.Diff([]string{circleWords}, got); diff != "" {
		t.Errorf("a change that repairs nothing (-want +got):\n%s", diff)
	}
	expectError(t, "a change that repairs it", admin.Patch(t.Context(), workflow.DeepCopy(), patch(`{"spec":{"jobs":{"a":{"needs":null}}}}`), client.DryRunAll), "")
	for _, object := range []client.Object{workflow, action, run} {
		what := fmt.Sprintf("%T: ", object)
		expectError(t, what+"its deletion", admin.Delete(t.Context(), object), "")
		expectError(t, what+"a change while it is being deleted", admin.Patch(t.Context(), object, patch(`{"metadata":{"labels":{"team":"b"}}}`)), "")
		expectError(t, what+"the finalizer's removal", admin.Patch(t.Context(), object, patch(`{"metadata":{"finalizers":null}}`)), "")
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%sit is still there: %v", what, err)
		}
	}
}

// TestWithoutAnAnswerDefinitionsAreAdmitted takes the manager away, has one that is not trusted, and one that never answers. The
// webhook that fails closed is not there: nothing rests on this one.
func TestWithoutAnAnswerDefinitionsAreAdmitted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	impostor := freeAddress(t)
	shared.StartManager(t, func(o *manager.Options) {
		o.Admission.Address, o.Admission.CertDir = impostor, cluster.UntrustedCertificates(t)
	})
	for name, address := range map[string]string{"nobody": freeAddress(t), "an impostor": impostor, "one that never answers": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			shared.AskForEarlyWords(t, ns, address)
			expectError(t, "a Workflow", shared.Admin().Create(t.Context(), newWorkflow(t, ns, "w", circle)), "")
		})
	}
}

// TestKubectlListsAllThatIsWrong shows what a person reads.
func TestKubectlListsAllThatIsWrong(t *testing.T) {
	ns := shared.Namespace(t)
	startEarlyWords(t, ns)
	said := ""
	cmdutil.BehaviorOnFatal(func(message string, _ int) { said = message })
	defer cmdutil.DefaultBehaviorOnFatal()
	refused(t, "an Action", func(ctx context.Context) error {
		err := shared.Admin().Create(ctx, newAction(t, ns, "a", `{steps: [{name: s, run: "${{ x }}"}, {name: t, run: "${{ inputs.y }}"}]}`), client.DryRunAll)
		cmdutil.CheckErr(err)
		return err
	})
	const want = `The Action "a" is invalid: 
* spec.steps[0].run: line 1, column 1: ${{ x }}: unknown context "x": write inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'
* spec.steps[1].run: line 1, column 1: ${{ inputs.y }}: "y" is not an input of this Action: declare it in spec.inputs`
	if diff := cmp.Diff(want, strings.TrimSpace(said)); diff != "" {
		t.Errorf("kubectl (-want +got):\n%s", diff)
	}
}

// TestOnlyTheControlPlaneMakesCalls creates the WorkflowRun of a call: with the identity of the manager, which is not asked about
// it, and with that of everybody else.
func TestOnlyTheControlPlaneMakesCalls(t *testing.T) {
	ns := shared.Namespace(t)
	startEarlyWords(t, ns)
	caller := newWorkflowRun(ns, "caller")
	shared.Create(t, caller)
	call := func(name string) *workflowsv1alpha1.WorkflowRun {
		made := child(caller, newWorkflowRun(ns, name))
		made.Labels[workflowsv1alpha1.LabelWorkflowRun], made.Labels[workflowsv1alpha1.LabelWorkflow] = "caller", "w"
		made.Annotations = map[string]string{workflowsv1alpha1.AnnotationOutputPrefix + "o": "${{ jobs.build.outputs.x }}"}
		return made
	}
	controller := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	expectError(t, "the manager makes a call", controller.Create(t.Context(), call("call")), "")
	broken := call("broken")
	broken.Annotations[workflowsv1alpha1.AnnotationOutputPrefix+"o"] = "${{"
	expectError(t, "the manager is not asked about its own", controller.Create(t.Context(), broken, client.DryRunAll), "")
	cancel := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelRequested":true}}`))
	expectError(t, "the manager cancels it", controller.Patch(t.Context(), call("call"), cancel), "")
	expectError(t, "the manager changes the outputs that it declares", controller.Patch(t.Context(), call("call"), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+workflowsv1alpha1.AnnotationOutputPrefix+`o":"x"}}}`))), "never change: create a new WorkflowRun")

	ann := cluster.Client(t, shared.User(t, ns, "ann", rbacv1.PolicyRule{APIGroups: []string{"workflows.kruntimes.io"}, Resources: []string{"workflowruns"},
		Verbs: []string{"create"}}))
	forged := map[string]struct {
		change func(*workflowsv1alpha1.WorkflowRun)
		want   string
	}{
		"all of a call": {func(*workflowsv1alpha1.WorkflowRun) {}, "are set only by the control plane"},
		"its labels":    {func(w *workflowsv1alpha1.WorkflowRun) { w.OwnerReferences = nil }, "are set only by the control plane"},
		"its owner":     {func(w *workflowsv1alpha1.WorkflowRun) { w.Labels = nil }, "must not name a WorkflowRun as controller"},
		"its owner, of a trigger": {func(w *workflowsv1alpha1.WorkflowRun) {
			w.Labels = map[string]string{workflowsv1alpha1.LabelWorkflow: "w"}
		}, "must not name a WorkflowRun as controller"},
	}
	for name, tc := range forged {
		made := call("forged")
		tc.change(made)
		expectError(t, "ann forges "+name, ann.Create(t.Context(), made), tc.want)
	}
	triggered := call("triggered")
	triggered.Labels, triggered.OwnerReferences = map[string]string{workflowsv1alpha1.LabelWorkflow: "w"}, nil
	expectError(t, "ann triggers a Workflow", ann.Create(t.Context(), triggered), "")
	outsider := cluster.Client(t, shared.User(t, ns, "outsider"))
	expectError(t, "somebody without rights", outsider.Create(t.Context(), &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "o"}, Spec: triggered.Spec}), "forbidden")
}
