package artifacts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// A call has no Runtime: its artifacts are read through the Pods of the Runtime of the job inside that left them.
func TestArtifactsOfACall(t *testing.T) {
	first, second := stored("page", corev1alpha1.ArtifactFile, "one"), stored("page", corev1alpha1.ArtifactFile, "two")
	index, lost := stored("index", corev1alpha1.ArtifactFile, "i"), stored("lost", corev1alpha1.ArtifactFile, "l")
	w := newWorld(t)
	workflowRun := func(name, parent string, jobs map[string]workflowsv1alpha1.Job, left map[string]workflowsv1alpha1.JobStatus) {
		run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}}
		if parent != "" {
			run.Labels = map[string]string{workflowsv1alpha1.LabelWorkflowRunUID: parent}
			run.OwnerReferences = []metav1.OwnerReference{{Kind: "WorkflowRun", Name: parent, UID: types.UID(parent), Controller: ptr.To(true)}}
		}
		run.Spec.Jobs, run.Status.Jobs = jobs, left
		w.objects = append(w.objects, run)
	}
	kept := func(refs ...corev1alpha1.ArtifactRef) workflowsv1alpha1.JobStatus {
		status := workflowsv1alpha1.JobStatus{Artifacts: map[string]corev1alpha1.ArtifactRef{}}
		for _, ref := range refs {
			status.Artifacts[ref.Name] = ref
		}
		return status
	}
	call := func(child string, refs ...corev1alpha1.ArtifactRef) workflowsv1alpha1.JobStatus {
		status := kept(refs...)
		status.WorkflowRunName = child
		return status
	}
	workflowRun("release", "", map[string]workflowsv1alpha1.Job{"docs": {Uses: "docs"}},
		map[string]workflowsv1alpha1.JobStatus{"docs": call("release-call-docs", second, index, lost)})
	workflowRun("release-call-docs", "release", map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh"}, "b": {RunsOn: "python", Needs: []string{"a"}}, "c": {Uses: "index"}},
		map[string]workflowsv1alpha1.JobStatus{"a": kept(first), "b": kept(second), "c": call("release-call-docs-call-c", index)})
	workflowRun("release-call-docs-call-c", "release-call-docs", map[string]workflowsv1alpha1.Job{"d": {RunsOn: "node"}},
		map[string]workflowsv1alpha1.JobStatus{"d": kept(index)})
	f := w.factory()
	c, err := f.Client()
	if err != nil {
		t.Fatal(err)
	}
	h, err := find(t.Context(), c, "team", cli.Target{Kind: cli.KindWorkflowRun, Name: "release"})
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{{"docs/index", "node", index}, {"docs/lost", "", lost}, {"docs/page", "python", second}}
	if diff := cmp.Diff(want, h.entries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
