package workspaces

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// saying is what a condition says. Messages hold nothing that changes by itself, so that nothing is written for it.
type saying struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) saying { return saying{metav1.ConditionTrue, reason, message} }

func no(reason, message string) saying { return saying{metav1.ConditionFalse, reason, message} }

// say sets both conditions.
func say(o *observation, d *decision, bound, available saying) {
	set := func(kind string, s saying) {
		meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
			Type: kind, Status: s.status, Reason: s.reason, Message: s.message,
			ObservedGeneration: o.workspace.Generation, LastTransitionTime: metav1.NewTime(o.now),
		})
	}
	set(workspacesv1alpha1.WorkspaceConditionBound, bound)
	set(workspacesv1alpha1.WorkspaceConditionAvailable, available)
}

// sayWaiting says what an unbound workspace waits for.
func sayWaiting(o *observation, d *decision) {
	name := o.workspace.Spec.Runtime
	s := no(workspacesv1alpha1.ReasonNoReadyPods, "waits for a ready Pod of Runtime "+name)
	switch {
	case o.runtime == nil:
		s = no(workspacesv1alpha1.ReasonRuntimeNotFound, "waits for Runtime "+name+", which does not exist")
	case !o.runtime.DeletionTimestamp.IsZero():
		s = no(workspacesv1alpha1.ReasonRuntimeNotFound, "waits for Runtime "+name+", which is being deleted")
	}
	say(o, d, s, s)
}

// sayBound says that a workspace has its Pod, and whether that can be used.
func sayBound(o *observation, d *decision) {
	available := no(workspacesv1alpha1.ReasonPodNotReady, "Pod "+o.pod.Name+" is not ready")
	switch {
	case !o.pod.DeletionTimestamp.IsZero():
		available = no(workspacesv1alpha1.ReasonPodTerminating, "Pod "+o.pod.Name+" is being deleted, and the workspace will be lost with it; until then Runs go there")
	case corev1alpha1.PodIsReady(o.pod):
		available = yes(workspacesv1alpha1.ReasonPodReady, "Pod "+o.pod.Name+" is ready")
	}
	say(o, d, boundTo(o.pod.Name), available)
}

// sayJustBound says that a workspace gets the Pod of the decision, which is ready.
func sayJustBound(o *observation, d *decision) {
	say(o, d, boundTo(d.pod.Name), yes(workspacesv1alpha1.ReasonPodReady, "Pod "+d.pod.Name+" is ready"))
}

// sayReleased says that a workspace, whose Pod is there, is on its way out.
func sayReleased(o *observation, d *decision) {
	say(o, d, boundTo(o.pod.Name), no(workspacesv1alpha1.ReasonReleased, "the workspace is being deleted, and takes no Run any more"))
}

// sayStuck says that the Pod of a workspace, which is there, has not removed the directory in time.
func sayStuck(o *observation, d *decision) {
	message := "its directory could not be removed yet: see the log of container " + corev1alpha1.ContainerRuntimed + " of Pod " + o.pod.Name
	if !corev1alpha1.PodIsReady(o.pod) {
		message += ", which is not ready"
	}
	say(o, d, boundTo(o.pod.Name), no(workspacesv1alpha1.ReasonCleanupStuck, message))
}

// sayLost says that a workspace is of no use any more.
func sayLost(o *observation, d *decision) {
	s := no(workspacesv1alpha1.ReasonPodLost,
		"the Pod "+o.workspace.Status.BoundPod+" that held the directory is gone, and the directory with it: create another workspace")
	say(o, d, s, s)
}

func boundTo(pod string) saying { return yes(workspacesv1alpha1.ReasonBound, "bound to Pod "+pod) }
