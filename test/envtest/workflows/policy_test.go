package workflows

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const (
	runLabels         = "metadata.labels named workflows.kruntimes.io/* are set only by the control plane; use a label of your own"
	workflowRunLabels = "metadata.labels named workflows.kruntimes.io/* are set only by the control plane, save workflow at create; use a label of your own"
	owners            = "metadata.ownerReferences must not name a WorkflowRun as controller; only the control plane makes children of a WorkflowRun"
	contract          = "metadata.annotations named kruntimes.io/workflow-output.* never change: create a new WorkflowRun"
)

// editorRules are those of the ClusterRole kruntimes-edit.
var editorRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs"}, Verbs: []string{"create", "update", "patch", "delete", "deletecollection"}},
	{APIGroups: []string{"workflows.kruntimes.io"}, Resources: []string{"workflowruns", "workflows", "actions"}, Verbs: []string{"create", "update", "patch", "delete", "deletecollection"}},
}

// revisionRules are what somebody may have beside them, by a role of a cluster's own.
var revisionRules = rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"create", "update", "patch", "delete"}}

// governor may do what the control plane will do for calls: create WorkflowRuns that are children.
var governor = append([]rbacv1.PolicyRule{
	{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs/status"}, Verbs: []string{"govern"}},
}, editorRules...)

// child makes a Run or WorkflowRun with the given labels, owned by a WorkflowRun where controller is set.
func child(t *testing.T, kind, namespace, name string, labels map[string]string, controller *bool) *unstructured.Unstructured {
	t.Helper()
	spec := job(sh)
	if kind == "Run" {
		spec = `{runtime: sh, source: {inline: "true"}}`
	}
	u := manifest(t, kind, namespace, name, spec)
	switch kind {
	case "Run":
		u.SetAPIVersion(corev1alpha1.GroupVersion.String())
	case "ControllerRevision":
		u.SetAPIVersion(appsv1.SchemeGroupVersion.String())
		delete(u.Object, "spec")
		u.Object["revision"], u.Object["data"] = int64(1), map[string]any{"x": "y"}
	}
	u.SetLabels(labels)
	if controller != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: workflowsv1alpha1.GroupVersion.String(), Kind: "WorkflowRun",
			Name: "w", UID: "w-uid", Controller: controller}})
	}
	return u
}

func TestOnlyTheControlPlaneMakesChildren(t *testing.T) {
	ns := shared.Namespace(t)
	editor := cluster.Client(t, shared.User(t, ns, "editor", append(slices.Clone(editorRules), revisionRules)...))
	yes, no := true, false
	plain := map[string]string{"team": "a", "workflows.kruntimes.io.example.com/x": "y"}
	for kind, labels := range map[string]string{"Run": runLabels, "WorkflowRun": workflowRunLabels, "ControllerRevision": workflowRunLabels} {
		create := func(what, want string, u *unstructured.Unstructured) {
			t.Helper()
			expectError(t, "an editor creates a "+kind+" "+what, editor.Create(t.Context(), u), want)
		}
		for _, label := range []string{workflowsv1alpha1.LabelWorkflowRun, workflowsv1alpha1.LabelWorkflowRunUID, workflowsv1alpha1.LabelJob,
			workflowsv1alpha1.LabelStep, workflowsv1alpha1.LabelActionStep, workflowsv1alpha1.LabelPrefix + "other"} {
			create("with "+label, labels, child(t, kind, ns, "forged", map[string]string{label: "x"}, nil))
		}
		create("with a controller", owners, child(t, kind, ns, "forged", nil, &yes))
		create("with a plain owner and labels", "", child(t, kind, ns, "own", plain, &no))

		made := child(t, kind, ns, "child", map[string]string{workflowsv1alpha1.LabelJob: "build", "team": "a"}, &yes)
		shared.Create(t, made)
		patch := func(what, want, name, text string) {
			t.Helper()
			u := child(t, kind, ns, name, nil, nil)
			expectError(t, "an editor of a "+kind+" "+what, editor.Patch(t.Context(), u, mergePatch(`{"metadata":`+text+`}`)), want)
		}
		patch("changes the label", labels, "child", `{"labels":{"workflows.kruntimes.io/job":"test"}}`)
		patch("removes the label", labels, "child", `{"labels":{"workflows.kruntimes.io/job":null}}`)
		patch("removes all labels", labels, "child", `{"labels":null}`)
		patch("adds a label", labels, "child", `{"labels":{"workflows.kruntimes.io/step":"s"}}`)
		patch("adds the label of a Workflow later", labels, "child", `{"labels":{"workflows.kruntimes.io/workflow":"w"}}`)
		patch("changes a label of their own", "", "child", `{"labels":{"team":"b"}}`)
		patch("takes another controller", owners, "child", `{"ownerReferences":[{"apiVersion":"workflows.kruntimes.io/v1","kind":"WorkflowRun","name":"v","uid":"v-uid","controller":true}]}`)
		patch("makes the plain owner the controller", owners, "own", `{"ownerReferences":[{"apiVersion":"workflows.kruntimes.io/v1alpha1","kind":"WorkflowRun","name":"w","uid":"w-uid","controller":true}]}`)
		patch("orphans the child, as the garbage collector does", "", "child", `{"ownerReferences":null}`)
	}
}

func TestTheControlPlaneMakesChildren(t *testing.T) {
	ns := shared.Namespace(t)
	yes := true
	labels := map[string]string{workflowsv1alpha1.LabelWorkflowRun: "w", workflowsv1alpha1.LabelWorkflowRunUID: "w-uid",
		workflowsv1alpha1.LabelJob: "j", workflowsv1alpha1.LabelStep: "s"}
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	run := child(t, "Run", ns, "child", labels, &yes)
	expectError(t, "the manager creates a Run", manager.Create(t.Context(), run), "")
	expectError(t, "the manager repairs a label", manager.Patch(t.Context(), run, mergePatch(`{"metadata":{"labels":{"workflows.kruntimes.io/step":"t"}}}`)), "")

	governs := cluster.Client(t, shared.User(t, ns, "governor", governor...))
	call := child(t, "WorkflowRun", ns, "call", labels, &yes)
	expectError(t, "a governor creates a WorkflowRun", governs.Create(t.Context(), call), "")
	expectError(t, "a governor repairs a label", governs.Patch(t.Context(), call, mergePatch(`{"metadata":{"labels":{"workflows.kruntimes.io/step":"t"}}}`)), "")
}

// TestTheWorkflowLabelIsSetAtCreate is how "krt workflow trigger" marks what it makes, with the rights of its user.
func TestTheWorkflowLabelIsSetAtCreate(t *testing.T) {
	ns := shared.Namespace(t)
	editor := cluster.Client(t, shared.User(t, ns, "editor", editorRules...))
	triggered := child(t, "WorkflowRun", ns, "triggered", map[string]string{workflowsv1alpha1.LabelWorkflow: "build"}, nil)
	expectError(t, "creating it", editor.Create(t.Context(), triggered), "")
	for _, text := range []string{`{"workflows.kruntimes.io/workflow":"other"}`, `{"workflows.kruntimes.io/workflow":null}`} {
		expectError(t, text, editor.Patch(t.Context(), triggered.DeepCopy(), mergePatch(`{"metadata":{"labels":`+text+`}}`)), workflowRunLabels)
	}
	expectError(t, "cancelling it", editor.Patch(t.Context(), triggered.DeepCopy(), mergePatch(`{"spec":{"cancelRequested":true}}`)), "")
	run := child(t, "Run", ns, "run", map[string]string{workflowsv1alpha1.LabelWorkflow: "build"}, nil)
	expectError(t, "a Run with it", editor.Create(t.Context(), run), runLabels)
}

func TestTheOutputContractNeverChanges(t *testing.T) {
	ns := shared.Namespace(t)
	const key = workflowsv1alpha1.AnnotationOutputPrefix
	clients := map[string]client.Client{
		"the administrator": shared.Admin(),
		"an editor":         cluster.Client(t, shared.User(t, ns, "editor", editorRules...)),
		"a governor":        cluster.Client(t, shared.User(t, ns, "governor", governor...)),
	}
	patches := map[string]string{
		"changing an output":   `{"` + key + `image":"other"}`,
		"emptying an output":   `{"` + key + `image":""}`,
		"removing an output":   `{"` + key + `image":null}`,
		"adding an output":     `{"` + key + `tag":"x"}`,
		"removing everything":  `null`,
		"changing two of them": `{"` + key + `image":null,"` + key + `tag":"x","note":"y"}`,
	}
	for who, c := range clients {
		made := manifest(t, "WorkflowRun", ns, "r", job(sh))
		made.SetAnnotations(map[string]string{key + "image": "${{ jobs.j.outputs.image }}", "note": "x"})
		expectError(t, who+" creates it", c.Create(t.Context(), made), "")
		for what, text := range patches {
			expectError(t, who+" "+what, c.Patch(t.Context(), made.DeepCopy(), mergePatch(`{"metadata":{"annotations":`+text+`}}`)), contract)
		}
		expectError(t, who+" changes another annotation", c.Patch(t.Context(), made.DeepCopy(), mergePatch(`{"metadata":{"annotations":{"note":"y"}}}`)), "")
		expectError(t, who+" keeps the same", c.Patch(t.Context(), made.DeepCopy(), mergePatch(`{"metadata":{"annotations":{"`+key+`image":"${{ jobs.j.outputs.image }}"}}}`)), "")
		shared.Delete(t, made)
	}
	bare := manifest(t, "WorkflowRun", ns, "bare", job(sh))
	shared.Create(t, bare)
	expectError(t, "a first output after create", shared.Admin().Patch(t.Context(), bare, mergePatch(`{"metadata":{"annotations":{"`+key+`a":"b"}}}`)), contract)
}

func TestAnEditorWritesNoStatus(t *testing.T) {
	ns := shared.Namespace(t)
	editor := cluster.Client(t, shared.User(t, ns, "editor", editorRules...))
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	specs := map[string]string{"WorkflowRun": job(sh), "Workflow": job(sh), "Action": `{steps: [{name: s, run: a}]}`}
	for kind, spec := range specs {
		made := manifest(t, kind, ns, "d", spec)
		expectError(t, "an editor creates a "+kind, editor.Create(t.Context(), made), "")
		expectError(t, "an editor writes the status of a "+kind, patchStatus(t, editor, made, `{"observedGeneration":7}`), "forbidden: User \"editor\" cannot patch resource")
		expectError(t, "an editor slips a status in", editor.Patch(t.Context(), made, mergePatch(`{"status":{"observedGeneration":7}}`)), "")
		if got, _, _ := unstructured.NestedInt64(made.Object, "status", "observedGeneration"); got != 0 {
			t.Errorf("an editor wrote the status of a %s past its subresource", kind)
		}
		if kind == "WorkflowRun" {
			expectError(t, "the manager writes it", patchStatus(t, manager, made, `{"observedGeneration":1}`), "")
		}
	}
}

// TestTheEditorHasTheRulesOfTheRole keeps this file honest: its editor is what the role makes of a user.
func TestTheEditorHasTheRulesOfTheRole(t *testing.T) {
	role := &rbacv1.ClusterRole{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Name: "kruntimes-edit"}, role); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[group+"/"+resource+" "+verb] = true
				}
			}
		}
	}
	for _, rule := range editorRules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if what := rule.APIGroups[0] + "/" + resource + " " + verb; !allowed[what] {
					t.Errorf("the role does not allow %s", what)
				}
			}
		}
	}
	for _, resource := range []string{"workflowruns", "workflows", "actions"} {
		for _, verb := range []string{"patch", "update"} {
			if allowed["workflows.kruntimes.io/"+resource+"/status "+verb] {
				t.Errorf("the role allows to %s the status of %s", verb, resource)
			}
		}
	}
}

// TestOnlyTheControlPlaneWritesWhatCameOfAWorkflowRun gives an editor everything in the group, as a role of a cluster's own may.
func TestOnlyTheControlPlaneWritesWhatCameOfAWorkflowRun(t *testing.T) {
	ns := shared.Namespace(t)
	editor := cluster.Client(t, shared.User(t, ns, "everything", rbacv1.PolicyRule{APIGroups: []string{"workflows.kruntimes.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	manager := cluster.Client(t, shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount))
	for kind, spec := range map[string]string{"WorkflowRun": job(sh), "Workflow": job(sh), "Action": `{steps: [{name: s, run: a}]}`} {
		made := manifest(t, kind, ns, "d", spec)
		expectError(t, "creating a "+kind, editor.Create(t.Context(), made), "")
		for _, status := range []string{`{"observedGeneration":7}`, `null`} {
			expectError(t, "writing the status of a "+kind, patchStatus(t, editor, made, status), "the status of a WorkflowRun, a Workflow and an Action is written only by the control plane")
		}
		expectError(t, "the manager writes the status of a "+kind, patchStatus(t, manager, made, `{"observedGeneration":1}`), "")
	}
}
