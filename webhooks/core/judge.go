package core

import (
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const (
	// field is where a Run names its workspace.
	field = "spec.workspace.name"
	// workflowRunKind is the kind of the owner of a Run and a workspace that are children.
	workflowRunKind = "WorkflowRun"
)

// attempt is what somebody asks for: a Run with a workspace.
type attempt struct {
	// caller is who asks; with impersonation, who is impersonated.
	caller authenticationv1.UserInfo
	// namespace is that of the Run, and so of the workspace.
	namespace string
	// run is to be created. Its spec names a workspace.
	run *corev1alpha1.Run
}

// workspace is the name of the workspace that the Run is to execute in.
func (a attempt) workspace() string { return a.run.Spec.Workspace.Name }

// verdict is a decision. The zero value admits the Run.
type verdict struct {
	// reason says in which way the Run is refused; empty for one that is admitted.
	reason metav1.StatusReason
	// message tells the caller why, and what to do about it.
	message string
}

// codes are the HTTP codes of the reasons for which Runs are refused. Clients take those from 500 on as failures that
// pass, and the others as an answer.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonInvalid:            http.StatusUnprocessableEntity,
	metav1.StatusReasonForbidden:          http.StatusForbidden,
	metav1.StatusReasonTimeout:            http.StatusGatewayTimeout,
	metav1.StatusReasonServiceUnavailable: http.StatusServiceUnavailable,
}

// isRefusal tells whether the Run is not created.
func (v verdict) isRefusal() bool { return v.reason != "" }

func refusal(reason metav1.StatusReason, format string, args ...any) verdict {
	return verdict{reason: reason, message: field + ": " + fmt.Sprintf(format, args...)}
}

// judgeReference refuses a Run whose workspace is not there, which is nil, or belongs to another Runtime. A workspace that
// is Pending, Lost or on its way out is no reason: the Run waits, and its status says for what.
func judgeReference(a attempt, workspace *workspacesv1alpha1.PersistentWorkspace) verdict {
	switch {
	case workspace == nil:
		return refusal(metav1.StatusReasonInvalid, "namespace %q has no PersistentWorkspace %q: create it before the Run", a.namespace, a.workspace())
	case workspace.Spec.Runtime != a.run.Spec.Runtime:
		return refusal(metav1.StatusReasonInvalid, "PersistentWorkspace %q belongs to Runtime %q, and the Run asks for Runtime %q",
			a.workspace(), workspace.Spec.Runtime, a.run.Spec.Runtime)
	default:
		return verdict{}
	}
}

// isName tells whether an object can have this name. Others are not asked for: the API server would see another path.
func isName(name string) bool { return len(validation.NameIsDNSSubdomain(name, false)) == 0 }

// judgeReview decides by what the API server has said about the caller's right. Role is the ClusterRole that holds it.
func judgeReview(a attempt, allowed bool, role string) verdict {
	if allowed {
		return verdict{}
	}
	return refusal(metav1.StatusReasonForbidden, "%s", missingRight(a, role))
}

// judgeChild decides on what the controller of WorkflowRuns asks for. Parent is the WorkflowRun of the name that the Run's
// owner reference holds; nil when there is none. Whatever cannot be shown is refused.
func judgeChild(a attempt, workspace *workspacesv1alpha1.PersistentWorkspace, parent *metav1.PartialObjectMetadata) verdict {
	deny := func(format string, args ...any) verdict {
		return refusal(metav1.StatusReasonForbidden, "the controller of WorkflowRuns executes only in workspaces of the same job: "+format, args...)
	}
	owner, isChild := ownerOf(a.run)
	workspaceOwner, isOwned := ownerOf(workspace)
	job := a.run.Labels[workflowsv1alpha1.LabelJob]
	switch {
	case !isChild:
		return deny("the Run has no WorkflowRun as its controller")
	case !isOwned:
		return deny("PersistentWorkspace %q has no WorkflowRun as its controller", workspace.Name)
	case workspaceOwner.UID != owner.UID || workspaceOwner.Name != owner.Name:
		return deny("PersistentWorkspace %q belongs to another WorkflowRun", workspace.Name)
	case parent == nil || parent.UID != owner.UID:
		return deny("WorkflowRun %q with UID %s is gone", owner.Name, owner.UID)
	case parent.DeletionTimestamp != nil:
		return deny("WorkflowRun %q is being deleted", owner.Name)
	case types.UID(a.run.Labels[workflowsv1alpha1.LabelWorkflowRunUID]) != owner.UID:
		return deny("the Run's label %s is not the UID of its WorkflowRun", workflowsv1alpha1.LabelWorkflowRunUID)
	case types.UID(workspace.Labels[workflowsv1alpha1.LabelWorkflowRunUID]) != owner.UID:
		return deny("label %s of PersistentWorkspace %q is not the UID of its WorkflowRun", workflowsv1alpha1.LabelWorkflowRunUID, workspace.Name)
	case job == "":
		return deny("the Run has no label %s", workflowsv1alpha1.LabelJob)
	case workspace.Labels[workflowsv1alpha1.LabelJob] != job:
		return deny("PersistentWorkspace %q is that of job %q, and the Run is of job %q", workspace.Name, workspace.Labels[workflowsv1alpha1.LabelJob], job)
	default:
		return verdict{}
	}
}

// ownerOf returns the WorkflowRun that controls an object, by its owner reference. Controllers of other kinds do not count.
func ownerOf(object metav1.Object) (owner metav1.OwnerReference, found bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != workflowRunKind || ref.UID == "" {
		return metav1.OwnerReference{}, false
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || version.Group != workflowsv1alpha1.GroupVersion.Group {
		return metav1.OwnerReference{}, false
	}
	return *ref, true
}
