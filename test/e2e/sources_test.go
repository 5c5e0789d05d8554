//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

// withClaim puts /workspace on a claim.
func withClaim(name string) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) {
		r.Spec.Workspace = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
}

// withEmptyDir puts /workspace on an emptyDir of this medium and size.
func withEmptyDir(medium corev1.StorageMedium, size string) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) {
		r.Spec.Workspace = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: ptr.To(resource.MustParse(size))}}
	}
}

// succeeds runs a script to its end and returns its outputs.
func succeeds(t *testing.T, env *e2e.Env, runtime, script string, changes ...func(*corev1alpha1.Run)) map[string]corev1alpha1.OutputValue {
	t.Helper()
	run := env.WaitRun(env.Run(runtime, script, changes...))
	if run.Status.Phase != corev1alpha1.RunSucceeded {
		t.Fatalf("the Run ended %s %s: %s", run.Status.Phase, run.Status.Reason, run.Status.Message)
	}
	return run.Status.Outputs
}

// asSomebody gives the Pod a user, a group and a group for volumes. Whoever names them says the rest of the profile too.
func asSomebody(r *corev1alpha1.Runtime) {
	r.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](12345), RunAsGroup: ptr.To[int64](12346), FSGroup: ptr.To[int64](12347), RunAsNonRoot: ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	r.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// The Pod's user is not the owner of a volume's directory: without the fsGroup nobody could write there.
func TestFilesOnAClaimOutliveThePod(t *testing.T) {
	t.Parallel()
	volumes := e2e.NewVolumes(t)
	env := e2e.New(t)
	volumes.Claim(env, "work")
	env.Runtime("bash", withClaim("work"), e2e.WithGrace(15), asSomebody)
	script := "echo kept >/workspace/kept\necho \"directory=$(stat -c %g /workspace)\" >>\"$KRUNTIME_OUTPUTS\"\n" +
		"echo \"file=$(stat -c %u:%g /workspace/kept)\" >>\"$KRUNTIME_OUTPUTS\"\n"
	first := env.WaitRun(env.Run("bash", script))
	if diff := cmp.Diff(map[string]corev1alpha1.OutputValue{"directory": "12347", "file": "12345:12347"}, first.Status.Outputs); diff != "" {
		t.Fatalf("who owns what, by a Run that ended %s %s (-want +got):\n%s", first.Status.Phase, first.Status.Message, diff)
	}
	pod := env.Pod(first)
	// Its end is awaited. In the moment after one without grace the scheduler does not know of it yet, and may choose the Pod.
	env.Kubectl("delete", "pod", pod.Name)
	second := env.WaitRun(env.Run("bash", "cat /workspace/kept\n"))
	if second.Status.Phase != corev1alpha1.RunSucceeded || second.Status.AssignedPodUID == string(pod.UID) {
		t.Fatalf("the Run on Pod %s ended %s %s: %s", second.Status.AssignedPod, second.Status.Phase, second.Status.Reason, second.Status.Message)
	}
	if got := env.Krt("logs", second.Name); got != "kept\n" {
		t.Errorf("the file holds %q", got)
	}
}

// statusTime is when the API server learned what it holds of a Pod's status, in whole seconds.
func statusTime(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, entry := range pod.ManagedFields {
		if entry.Subresource == "status" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// evictionLimit is how long a kubelet with its usual settings may take: it measures volumes once a minute.
const evictionLimit = 4 * time.Minute

// It takes a minute or two on a kubelet with its usual settings, and disturbs nobody.
func TestRunsOfAPodThatIsEvictedForItsWorkspaceAreJudged(t *testing.T) {
	t.Parallel()
	env := e2e.New(t)
	env.Runtime("bash", withEmptyDir(corev1.StorageMediumDefault, "4Mi"), e2e.WithGrace(15))
	gate := env.NewGate("flood")
	run := env.Run("bash", gate.Wait+"head -c 16M /dev/zero >/workspace/full; exec sleep 600\n")
	env.WaitPhase(run, corev1alpha1.RunRunning)
	tried := env.Run("bash", "[ $KRUNTIME_ATTEMPT = 2 ] || exec sleep 600\n", func(r *corev1alpha1.Run) {
		r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 2}
	})
	env.WaitPhase(tried, corev1alpha1.RunRunning)
	pod := env.Pod(run)
	gate.Open(pod.Name)
	env.Within(evictionLimit, "the kubelet has evicted the Pod", func() string {
		env.Refresh(pod)
		if pod.Status.Phase == corev1.PodFailed {
			return ""
		}
		return fmt.Sprintf("it is %s %s", pod.Status.Phase, pod.Status.Reason)
	})
	if pod.Status.Reason != "Evicted" {
		t.Fatalf("the Pod ended %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	expectJudged(t, env, statusTime(pod), run, tried)
	if run.Status.Phase != corev1alpha1.RunFailed || !strings.Contains(run.Status.Message, "Evicted: Usage of EmptyDir volume \"workspace\" exceeds the limit \"4Mi\"") {
		t.Errorf("the Run ended %s %s: %s; the Pod's message is %q", run.Status.Phase, run.Status.Reason, run.Status.Message, pod.Status.Message)
	}
	if env.WaitRun(tried); tried.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("the Run that is tried again ended %s %s: %s", tried.Status.Phase, tried.Status.Reason, tried.Status.Message)
	}
}
