package core

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const uid = types.UID("8f0f2c1e-0000-4000-8000-000000000001")

// owned is the metadata of a child of WorkflowRun "ci", for job "build".
func owned(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "team-a", Name: name,
		Labels: map[string]string{workflowsv1alpha1.LabelWorkflowRunUID: string(uid), workflowsv1alpha1.LabelJob: "build"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: workflowsv1alpha1.GroupVersion.String(), Kind: "WorkflowRun", Name: "ci",
			UID: uid, Controller: ptr.To(true)}},
	}
}

func childRun() *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: owned("ci-build-test"), Spec: corev1alpha1.RunSpec{Runtime: "bash",
		Workspace: &corev1alpha1.WorkspaceReference{Name: "ci-build"}}}
}

func childWorkspace() *workspacesv1alpha1.PersistentWorkspace {
	return &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: owned("ci-build"), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "bash"}}
}

func liveOwner() *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "ci", UID: uid}}
}

func TestJudgeReference(t *testing.T) {
	deleted := childWorkspace()
	deleted.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	inPhase := func(phase workspacesv1alpha1.WorkspacePhase) *workspacesv1alpha1.PersistentWorkspace {
		w := childWorkspace()
		w.Status.Phase = phase
		return w
	}
	other := childWorkspace()
	other.Spec.Runtime = "python"
	cases := map[string]struct {
		workspace *workspacesv1alpha1.PersistentWorkspace
		want      verdict
	}{
		"a workspace of the same Runtime passes":           {workspace: childWorkspace()},
		"one that waits for a Pod is no reason":            {workspace: inPhase(workspacesv1alpha1.WorkspacePending)},
		"one whose Pod is gone leaves the Run waiting":     {workspace: inPhase(workspacesv1alpha1.WorkspaceLost)},
		"one that is released leaves the Run waiting":      {workspace: inPhase(workspacesv1alpha1.WorkspaceReleased)},
		"one that is being deleted leaves the Run waiting": {workspace: deleted},
		"one that is not there is refused": {want: verdict{reason: metav1.StatusReasonInvalid,
			message: `spec.workspace.name: namespace "team-a" has no PersistentWorkspace "ci-build": create it before the Run`}},
		"one of another Runtime is refused": {workspace: other, want: verdict{reason: metav1.StatusReasonInvalid,
			message: `spec.workspace.name: PersistentWorkspace "ci-build" belongs to Runtime "python", and the Run asks for Runtime "bash"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := judgeReference(attempt{namespace: "team-a", run: childRun()}, tc.workspace)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeReview(t *testing.T) {
	const rule = `{apiGroups: [workspaces.kruntimes.io], resources: [persistentworkspaces/use], verbs: [use], resourceNames: ["ci-build"]}`
	message := func(who, flag string) string {
		return `spec.workspace.name: ` + who + ` may not execute in PersistentWorkspace "ci-build": the verb "use" on persistentworkspaces/use is missing. ` +
			`An administrator of namespace "team-a" grants it with a RoleBinding to a Role that holds the rule ` + rule +
			`, or for all workspaces of the namespace with kubectl create rolebinding use-workspaces --namespace=team-a --clusterrole=kr-workspace-user ` + flag
	}
	cases := map[string]struct {
		user    string
		allowed bool
		want    string
	}{
		"whoever may use it is admitted":               {user: "ann", allowed: true},
		"a user is told what to ask for":               {user: "ann", want: message(`user "ann"`, `--user=ann`)},
		"a user of an identity provider":               {user: "https://id.example.com#ann@example.com", want: message(`user "https://id.example.com#ann@example.com"`, `--user='https://id.example.com#ann@example.com'`)},
		"a ServiceAccount":                             {user: "system:serviceaccount:ci:bot", want: message("ServiceAccount ci/bot", "--serviceaccount=ci:bot")},
		"a name that a shell would take for a command": {user: "o'neill; reboot", want: message(`user "o'neill; reboot"`, `--user='o'\''neill; reboot'`)},
		"nobody": {user: "", want: message(`user ""`, `--user=''`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := verdict{}
			if tc.want != "" {
				want = verdict{reason: metav1.StatusReasonForbidden, message: tc.want}
			}
			a := attempt{caller: authenticationv1.UserInfo{Username: tc.user}, namespace: "team-a", run: childRun()}
			if diff := cmp.Diff(want, judgeReview(a, tc.allowed, "kr-workspace-user"), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// family is a Run, its workspace and their WorkflowRun.
type family struct {
	run       *corev1alpha1.Run
	workspace *workspacesv1alpha1.PersistentWorkspace
	live      *metav1.PartialObjectMetadata
}

func TestJudgeChild(t *testing.T) {
	const stranger = types.UID("8f0f2c1e-0000-4000-8000-000000000002")
	cases := map[string]struct {
		// change is made to a family that is admitted.
		change func(*family)
		want   string
	}{
		"children of one live WorkflowRun and job": {change: func(*family) {}},
		"a later version of the group": {change: func(f *family) {
			f.run.OwnerReferences[0].APIVersion = "workflows.kruntimes.io/v1"
		}},
		"a Run without an owner": {change: func(f *family) { f.run.OwnerReferences = nil }, want: "the Run has no WorkflowRun as its controller"},
		"a Run that is owned and not controlled": {change: func(f *family) { f.run.OwnerReferences[0].Controller = nil },
			want: "the Run has no WorkflowRun as its controller"},
		"a Run of a controller of another kind": {change: func(f *family) { f.run.OwnerReferences[0].Kind = "Workflow" },
			want: "the Run has no WorkflowRun as its controller"},
		"a Run of a controller of another group": {change: func(f *family) { f.run.OwnerReferences[0].APIVersion = "example.com/v1alpha1" },
			want: "the Run has no WorkflowRun as its controller"},
		"a Run of a controller without a group": {change: func(f *family) { f.run.OwnerReferences[0].APIVersion = "v1" },
			want: "the Run has no WorkflowRun as its controller"},
		"a Run of a controller with a version that is none": {change: func(f *family) { f.run.OwnerReferences[0].APIVersion = "workflows.kruntimes.io/v1/x" },
			want: "the Run has no WorkflowRun as its controller"},
		"owners without a UID": {change: func(f *family) {
			f.run.OwnerReferences[0].UID, f.workspace.OwnerReferences[0].UID, f.live.UID = "", "", ""
			delete(f.run.Labels, workflowsv1alpha1.LabelWorkflowRunUID)
			delete(f.workspace.Labels, workflowsv1alpha1.LabelWorkflowRunUID)
		}, want: "the Run has no WorkflowRun as its controller"},
		"a workspace without an owner": {change: func(f *family) { f.workspace.OwnerReferences = nil },
			want: `PersistentWorkspace "ci-build" has no WorkflowRun as its controller`},
		"a workspace that is owned and not controlled": {change: func(f *family) { f.workspace.OwnerReferences[0].Controller = ptr.To(false) },
			want: `PersistentWorkspace "ci-build" has no WorkflowRun as its controller`},
		"a workspace of another WorkflowRun": {change: func(f *family) { f.workspace.OwnerReferences[0].UID = stranger },
			want: `PersistentWorkspace "ci-build" belongs to another WorkflowRun`},
		"a workspace whose owner has another name": {change: func(f *family) { f.workspace.OwnerReferences[0].Name = "cd" },
			want: `PersistentWorkspace "ci-build" belongs to another WorkflowRun`},
		"a WorkflowRun that is gone": {change: func(f *family) { f.live = nil }, want: `WorkflowRun "ci" with UID ` + string(uid) + ` is gone`},
		"a WorkflowRun that was replaced under its name": {change: func(f *family) { f.live.UID = stranger },
			want: `WorkflowRun "ci" with UID ` + string(uid) + ` is gone`},
		"a WorkflowRun that is being deleted": {change: func(f *family) { f.live.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0))) },
			want: `WorkflowRun "ci" is being deleted`},
		"a Run without the label of its WorkflowRun": {change: func(f *family) { delete(f.run.Labels, workflowsv1alpha1.LabelWorkflowRunUID) },
			want: "the Run's label workflows.kruntimes.io/workflow-run-uid is not the UID of its WorkflowRun"},
		"a Run with the label of another WorkflowRun": {change: func(f *family) { f.run.Labels[workflowsv1alpha1.LabelWorkflowRunUID] = string(stranger) },
			want: "the Run's label workflows.kruntimes.io/workflow-run-uid is not the UID of its WorkflowRun"},
		"a workspace without the label of its WorkflowRun": {change: func(f *family) { delete(f.workspace.Labels, workflowsv1alpha1.LabelWorkflowRunUID) },
			want: `label workflows.kruntimes.io/workflow-run-uid of PersistentWorkspace "ci-build" is not the UID of its WorkflowRun`},
		"a workspace with the label of another WorkflowRun": {change: func(f *family) { f.workspace.Labels[workflowsv1alpha1.LabelWorkflowRunUID] = string(stranger) },
			want: `label workflows.kruntimes.io/workflow-run-uid of PersistentWorkspace "ci-build" is not the UID of its WorkflowRun`},
		"no job at all": {change: func(f *family) {
			f.run.Labels[workflowsv1alpha1.LabelJob], f.workspace.Labels[workflowsv1alpha1.LabelJob] = "", ""
		},
			want: "the Run has no label workflows.kruntimes.io/job"},
		"a workspace of another job": {change: func(f *family) { f.workspace.Labels[workflowsv1alpha1.LabelJob] = "deploy" },
			want: `PersistentWorkspace "ci-build" is that of job "deploy", and the Run is of job "build"`},
		"a workspace of no job": {change: func(f *family) { delete(f.workspace.Labels, workflowsv1alpha1.LabelJob) },
			want: `PersistentWorkspace "ci-build" is that of job "", and the Run is of job "build"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := &family{childRun(), childWorkspace(), &metav1.PartialObjectMetadata{ObjectMeta: liveOwner().ObjectMeta}}
			tc.change(f)
			want := verdict{}
			if tc.want != "" {
				want = verdict{reason: metav1.StatusReasonForbidden,
					message: "spec.workspace.name: the controller of WorkflowRuns executes only in workspaces of the same job: " + tc.want}
			}
			got := judgeChild(attempt{namespace: "team-a", run: f.run}, f.workspace, f.live)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesThatNoObjectHasAreNotAskedFor(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "../runs", "a?b", "A", strings.Repeat("a", 254)} {
		if isName(name) {
			t.Errorf("%q counts as the name of an object", name)
		}
	}
	for _, name := range []string{"a", "ci-build", "v1.2", strings.Repeat("a", 253)} {
		if !isName(name) {
			t.Errorf("%q does not count as the name of an object", name)
		}
	}
}
