package workflows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// artifactsOf are artifacts as the runtimed of a Pod with a bucket reports them.
func artifactsOf(run *corev1alpha1.Run, names ...string) []corev1alpha1.ArtifactRef {
	var refs []corev1alpha1.ArtifactRef
	for _, name := range names {
		refs = append(refs, corev1alpha1.ArtifactRef{
			Name: name, Driver: corev1alpha1.ArtifactDriverS3, Type: corev1alpha1.ArtifactFile, SizeBytes: 1 << 40,
			Digest: "sha256:" + strings.Repeat("a", 64),
			Location: corev1alpha1.ArtifactLocation{S3: &corev1alpha1.S3Location{
				Bucket: "artifacts", Key: fmt.Sprintf("ci/runs/%s/artifacts/%s", run.UID, name)}},
		})
	}
	return refs
}

const handover = `
jobs:
  build:
    runs-on: sh
    steps:
    - {name: compile, run: make}
    - {name: package, run: make dist}
  deploy:
    runs-on: sh
    needs: [build]
    steps:
    - {name: prepare, run: prepare}
    - name: verify
      run: tar -tzf dist.tgz
      artifacts:
      - {from: jobs.build.artifacts.dist.tgz, path: dist.tgz}
      - {from: "jobs.build.artifacts.${{ 'build log' }}", path: in/log}
`

func readRun(t *testing.T, namespace, name string) *corev1alpha1.Run {
	t.Helper()
	run := &corev1alpha1.Run{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, run); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestAnArtifactGoesFromJobToJob(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	startPlayer(t, ns, map[string]result{
		"build/compile": {phase: corev1alpha1.RunSucceeded, artifacts: []string{"build log", "dist.tgz"}},
		"build/package": {phase: corev1alpha1.RunSucceeded, artifacts: []string{"dist.tgz"}},
	})
	newWorkflowRun(t, ns, "ci", handover)
	run := awaitEnd(t, ns, "ci")
	if run.Status.Phase != workflowsv1alpha1.WorkflowSucceeded {
		t.Fatalf("got phase %s: %s", run.Status.Phase, run.Status.Message)
	}
	log := artifactsOf(readRun(t, ns, "ci-build-compile"), "build log")[0]
	dist := artifactsOf(readRun(t, ns, "ci-build-package"), "dist.tgz")[0]
	want := map[string]corev1alpha1.ArtifactRef{"build log": log, "dist.tgz": dist}
	if diff := cmp.Diff(want, run.Status.Jobs["build"].Artifacts); diff != "" {
		t.Errorf("the artifacts of job build (-want +got):\n%s", diff)
	}
	wantInputs := map[string][]corev1alpha1.ArtifactInput{
		"ci-build-package": nil, "ci-deploy-prepare": nil,
		"ci-deploy-verify": {{Artifact: dist, Path: "dist.tgz"}, {Artifact: log, Path: "in/log"}},
	}
	for name, want := range wantInputs {
		if diff := cmp.Diff(want, readRun(t, ns, name).Spec.ArtifactInputs); diff != "" {
			t.Errorf("the inputs of Run %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnArtifactThatNobodyLeftFailsItsJob(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	p := startPlayer(t, ns, map[string]result{"build/package": {phase: corev1alpha1.RunSucceeded, artifacts: []string{"dist.tar.gz"}}})
	newWorkflowRun(t, ns, "ci", handover)
	run := awaitEnd(t, ns, "ci")
	const want = `job deploy failed: step verify: ArtifactMissing: job build left no artifact "dist.tgz": it left "dist.tar.gz"; ` +
		`job build left no artifact "build log": it left "dist.tar.gz"`
	if run.Status.Phase != workflowsv1alpha1.WorkflowFailed || run.Status.Message != want {
		t.Errorf("got phase %s, message\n%s\nwant\n%s", run.Status.Phase, run.Status.Message, want)
	}
	wantRuns := map[string][]string{"build/compile": {"ci-build-compile"}, "build/package": {"ci-build-package"}}
	if diff := cmp.Diff(wantRuns, p.executions()); diff != "" {
		t.Errorf("executed Runs (-want +got):\n%s", diff)
	}
	if got := children(t, run); len(got) != 2 {
		t.Errorf("got %d children, want those of job build", len(got))
	}
}

func TestAnArtifactOfAJobThatIsNotNeededIsRefused(t *testing.T) {
	ns := shared.Namespace(t)
	shared.StartManager(t)
	newWorkflowRun(t, ns, "ci", strings.Replace(handover, "needs: [build]", "needs: []", 1))
	run := awaitEnd(t, ns, "ci")
	const want = `spec.jobs[deploy].steps[1].artifacts[0].from: Invalid value: "jobs.build.artifacts.dist.tgz": job "deploy" does not need "build"`
	accepted := meta.FindStatusCondition(run.Status.Conditions, workflowsv1alpha1.WorkflowRunConditionAccepted)
	if accepted == nil || accepted.Status != "False" || !strings.Contains(accepted.Message, want) {
		t.Errorf("got condition %+v, want False with %q", accepted, want)
	}
	if got := children(t, run); len(got) > 0 {
		t.Errorf("got %d children", len(got))
	}
}
