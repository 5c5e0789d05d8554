//go:build e2e

package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// jobSettled waits until a job of a WorkflowRun is in a phase without return, and returns how it went.
func jobSettled(env *e2e.Env, workflowRun, job string) workflowsv1alpha1.JobStatus {
	settled := []workflowsv1alpha1.JobPhase{workflowsv1alpha1.JobSucceeded, workflowsv1alpha1.JobFailed, workflowsv1alpha1.JobSkipped}
	run := env.WaitWorkflowRunUntil(workflowRun, "has settled job "+job, func(run *workflowsv1alpha1.WorkflowRun) bool {
		return slices.Contains(settled, run.Status.Jobs[job].Phase)
	})
	return run.Status.Jobs[job]
}

// withStore keeps the artifacts of a Runtime on a claim.
func withStore(claim string) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) {
		r.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{Filesystem: &corev1alpha1.FilesystemStore{VolumeClaimName: claim}}
	}
}

// Two Pods and two jobs: what is not the job's own is not found, whether the jobs met on one Pod or not.
const sharingWorkflow = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: sharing}
spec:
  jobs:
    left: &job
      runs-on: bash
      steps:
      - name: checkout
        run: mkdir src && echo "$KRUNTIME_RUN_NAME" >src/$(hostname) && echo hello >hello
      - name: test
        run: cat hello && rm hello
      - name: package
        run: |
          [ ! -e hello ]
          echo "files=$(find . -name .kruntimes -prune -o -type f -print | xargs cat | tr '\n' ' ')" >>"$KRUNTIME_OUTPUTS"
    right: *job
`

func TestStepsOfAJobShareFilesAndJobsDoNot(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithReplicas(2), e2e.WithGrace(15))
	env.Apply(sharingWorkflow)
	for _, job := range []string{"left", "right"} {
		status := jobSettled(env, "sharing", job)
		if status.Phase != workflowsv1alpha1.JobSucceeded {
			t.Fatalf("job %s ended %s: %+v", job, status.Phase, status)
		}
		want := map[string]corev1alpha1.OutputValue{"files": corev1alpha1.OutputValue("sharing-" + job + "-checkout ")}
		if diff := cmp.Diff(want, status.Steps[2].Outputs); diff != "" {
			t.Errorf("files of job %s (-want +got):\n%s", job, diff)
		}
	}
	env.Eventually("the directories of the jobs are gone", func() string {
		return env.Kubectl("get", "persistentworkspaces", "--output=name")
	})
}

// The Pod of job lost goes while its second step executes.
const losingWorkflow = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: losing}
spec:
  jobs:
    lost:
      runs-on: bash
      steps:
      - name: begin
        run: echo begun >file
      - name: work
        run: exec sleep 600
      - name: end
        run: "true"
    dependent: {runs-on: bash, needs: [lost], steps: [{name: never, run: "true"}]}
`

func TestAJobWhosePodIsLostFailsAndSaysWhy(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", e2e.WithGrace(15))
	env.Apply(losingWorkflow)
	work := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "losing-lost-work"}}
	env.Eventually("the second step executes", func() string {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(work), work)
		if err == nil && work.Status.Phase == corev1alpha1.RunRunning {
			return ""
		}
		return fmt.Sprintf("it is %s, %v", work.Status.Phase, err)
	})
	losePod(t, env, env.Pod(work))
	lost := jobSettled(env, "losing", "lost")
	told := strings.HasPrefix(lost.Message, "WorkspaceLost: ") ||
		e2e.Setting("CLUSTER") == "" && strings.Contains(lost.Message, string(corev1alpha1.RunReasonPodTerminated))
	if lost.Phase != workflowsv1alpha1.JobFailed || !told {
		t.Errorf("the job ended %s: %s", lost.Phase, lost.Message)
	}
	for _, step := range lost.Steps {
		if step.Name == "end" && step.RunName != "" {
			t.Errorf("the step after that one has Run %s", step.RunName)
		}
	}
	if dependent := jobSettled(env, "losing", "dependent"); dependent.Phase != workflowsv1alpha1.JobSkipped {
		t.Errorf("the job that needs it ended %s: %s", dependent.Phase, dependent.Message)
	}
}

func TestARunGetsWhatAnotherLeft(t *testing.T) {
	t.Parallel()
	volumes := e2e.NewVolumes(t)
	env := e2e.New(t)
	volumes.Claim(env, "artifacts")
	env.Runtime("bash", withStore("artifacts"), e2e.WithGrace(15))
	producer := env.WaitRun(env.Run("bash", `
mkdir "$KRUNTIME_ARTIFACTS_DIR/tree"
echo one >"$KRUNTIME_ARTIFACTS_DIR/tree/script"
chmod 755 "$KRUNTIME_ARTIFACTS_DIR/tree/script"
head -c 3000000 /dev/urandom >"$KRUNTIME_ARTIFACTS_DIR/large"
echo "digest=$(sha256sum <"$KRUNTIME_ARTIFACTS_DIR/large")" >>"$KRUNTIME_OUTPUTS"
`))
	if len(producer.Status.Artifacts) != 2 {
		t.Fatalf("the Run ended %s %s and left %+v", producer.Status.Phase, producer.Status.Message, producer.Status.Artifacts)
	}
	got := succeeds(t, env, "bash", `
echo "digest=$(sha256sum <in/large)" >>"$KRUNTIME_OUTPUTS"
echo "tree=$(cat in/tree/script) $(stat -c %a in/tree/script)" >>"$KRUNTIME_OUTPUTS"
# The store itself is out of reach.
[ ! -e /artifacts ] && ! grep artifact /proc/mounts
`, func(r *corev1alpha1.Run) {
		for _, artifact := range producer.Status.Artifacts {
			r.Spec.ArtifactInputs = append(r.Spec.ArtifactInputs, corev1alpha1.ArtifactInput{Artifact: artifact, Path: "in/" + artifact.Name})
		}
	})
	want := map[string]corev1alpha1.OutputValue{"digest": producer.Status.Outputs["digest"], "tree": "one 755"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
	missing := producer.Status.Artifacts[0]
	missing.Location.Filesystem.Path = strings.Replace(missing.Location.Filesystem.Path, string(producer.UID), strings.Repeat("0", 8)+string(producer.UID)[8:], 1)
	refused := env.WaitRun(env.Run("bash", "echo executed\n", func(r *corev1alpha1.Run) {
		r.Spec.ArtifactInputs = []corev1alpha1.ArtifactInput{{Artifact: missing, Path: "in"}}
	}))
	if refused.Status.Reason != corev1alpha1.RunReasonArtifactInputFailed || env.Krt("logs", refused.Name) != "" {
		t.Errorf("a Run with an artifact that is not there ended %s: %s", refused.Status.Reason, refused.Status.Message)
	}
}

// The seeds' example, but for the Runtimes: that of job deploy has no Pod until the test has seen the one of job build go.
const transferWorkflow = `
apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {name: ci}
spec:
  jobs:
    build:
      runs-on: build
      steps:
      - name: checkout
        run: |
          mkdir -p src
          echo 'print("hello")' > src/app.py
      - name: package
        run: tar -czf "$KRUNTIME_ARTIFACTS_DIR/dist.tgz" src
    deploy:
      runs-on: deploy
      needs: [build]
      steps:
      - name: verify
        artifacts:
        - {from: jobs.build.artifacts.dist.tgz, path: in/dist.tgz}
        run: |
          tar -xzf in/dist.tgz
          echo "app=$(cat src/app.py)" >>"$KRUNTIME_OUTPUTS"
`

func TestAJobGetsAnArtifactOfAJobWhosePodIsGone(t *testing.T) {
	t.Parallel()
	volumes := e2e.NewVolumes(t)
	env := e2e.New(t)
	volumes.Claim(env, "artifacts")
	build := env.Runtime("build", withStore("artifacts"), e2e.WithGrace(15))
	deploy := env.Runtime("deploy", withStore("artifacts"), e2e.WithReplicas(0), e2e.WithGrace(15))
	env.Apply(transferWorkflow)
	if status := jobSettled(env, "ci", "build"); status.Phase != workflowsv1alpha1.JobSucceeded {
		t.Fatalf("job build ended %s: %+v", status.Phase, status)
	}
	scale(env, build, 0)
	env.Eventually("the Pod of job build is gone", func() string {
		if len(env.Pods("build")) == 0 {
			return ""
		}
		return "it is there"
	})
	scale(env, deploy, 1)
	status := jobSettled(env, "ci", "deploy")
	if len(status.Steps) != 1 || status.Steps[0].Outputs["app"] != `print("hello")` {
		t.Fatalf("job deploy ended %s: %+v", status.Phase, status)
	}
	scale(env, build, 1)
	env.WaitRuntime(build)
	dir := t.TempDir()
	env.Krt("artifacts", "download", "workflowrun", "ci", "build/dist.tgz", "--dir="+dir)
	archive, err := os.ReadFile(filepath.Join(dir, "build", "dist.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if want := jobSettled(env, "ci", "build").Artifacts["dist.tgz"].Digest; fmt.Sprintf("sha256:%x", sha256.Sum256(archive)) != want {
		t.Errorf("downloaded %d bytes that do not have the digest %s", len(archive), want)
	}
}

// scale asks for so many Pods.
func scale(env *e2e.Env, runtime *corev1alpha1.Runtime, replicas int32) {
	env.Kubectl("scale", "runtime", runtime.Name, fmt.Sprintf("--replicas=%d", replicas))
}
