package kubelet

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kruntimes.io/kruntimes/devcluster/process"
)

// stage runs the Pod of one test and sees what is written about it.
type stage struct {
	t       *testing.T
	kubelet *Kubelet
	pod     *corev1.Pod
	dir     string
	// phases are those that were written, and deleted is closed when the Pod is removed from the API.
	phases  chan corev1.PodPhase
	deleted chan struct{}
}

// startPod starts a Pod whose containers run the scripts, by name, in a directory that the scripts find in $D.
func startPod(t *testing.T, scripts map[string]string) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	keeper, err := process.NewKeeper(ctx, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: t.TempDir(), phases: make(chan corev1.PodPhase, 100), deleted: make(chan struct{})}
	s.pod = labelledPod(func(spec *corev1.PodSpec) {
		spec.RestartPolicy, spec.Containers = corev1.RestartPolicyAlways, nil
		for name, script := range scripts {
			spec.Containers = append(spec.Containers, corev1.Container{Name: name, Image: "i", Command: []string{"/bin/sh", "-c", script},
				Env: []corev1.EnvVar{{Name: "D", Value: s.dir}}})
		}
	})
	api := fake.NewClientset()
	api.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct{ Status corev1.PodStatus }
		err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &patch)
		s.phases <- patch.Status.Phase
		return true, s.pod, err
	})
	api.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(s.deleted)
		s.kubelet.forget(s.pod)
		return true, nil, nil
	})
	s.kubelet = &Kubelet{config: Config{NodeName: "dev", PodsDir: t.TempDir()}, client: api, clock: clock.RealClock{}, keeper: keeper,
		log: logr.Discard(), workers: map[types.UID]*worker{}}
	s.kubelet.workerOf(ctx, s.pod)
	t.Cleanup(func() {
		cancel()
		if err := keeper.Close(); err != nil {
			t.Error(err)
		}
		s.kubelet.running.Wait()
	})
	return s
}

// terminate tells of a deletion with a grace period, as the watch does.
func (s *stage) terminate(seconds int64) {
	pod := s.pod.DeepCopy()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(time.Now().Add(time.Duration(seconds)*time.Second))), &seconds
	s.kubelet.workerOf(s.t.Context(), pod).post(func(w *worker) { w.pod = pod })
}

// holds waits until a file holds the text.
func (s *stage) holds(name, want string) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		text, _ := os.ReadFile(filepath.Join(s.dir, name)) // it may not be there yet
		if string(text) == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("file %s holds %q, want %q", name, text, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s *stage) make(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// lastPhase is what was written last about a Pod that is deleted.
func (s *stage) lastPhase() corev1.PodPhase {
	s.t.Helper()
	await(s.t, "the deletion of the Pod", s.deleted)
	var last corev1.PodPhase
	for len(s.phases) > 0 {
		last = <-s.phases
	}
	return last
}

// drains is a script that takes note of SIGTERM, and ends with a code once there is a file.
const drains = `trap 'echo $0 >>$D/term; until [ -e $D/go ]; do sleep 0.02; done; exit CODE' TERM
echo up >>$D/NAME; while :; do sleep 0.02; done`

func draining(name, code string) string {
	return strings.NewReplacer("NAME", name, "CODE", code, "$0", "x").Replace(drains)
}

// TestAllContainersAreToldAtOnce also has one that ends meanwhile: it is not started again.
func TestAllContainersAreToldAtOnce(t *testing.T) {
	cases := map[string]struct {
		code string
		want corev1.PodPhase
	}{
		"all end well": {"0", corev1.PodSucceeded},
		"one fails":    {"3", corev1.PodFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := startPod(t, map[string]string{"a": draining("a", tc.code), "b": draining("b", "0"),
				"quick": "trap 'exit 0' TERM; echo up >>$D/quick; while :; do sleep 0.02; done"})
			for _, name := range []string{"a", "b", "quick"} {
				s.holds(name, "up\n")
			}
			s.terminate(600)
			s.holds("term", "x\nx\n")
			s.make("go")
			if got := s.lastPhase(); got != tc.want {
				t.Errorf("the last phase is %s, want %s", got, tc.want)
			}
			s.holds("quick", "up\n")
		})
	}
}

func TestTheGraceIsKeptAndMayBecomeShorter(t *testing.T) {
	s := startPod(t, map[string]string{"a": draining("a", "0")})
	s.holds("a", "up\n")
	s.terminate(600)
	s.holds("term", "x\n")
	s.terminate(1)
	began := time.Now()
	if got := s.lastPhase(); got != corev1.PodFailed {
		t.Errorf("the last phase is %s, want Failed", got)
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("killed after %s, of a grace period of 1 s", took)
	}
	if diff := cmp.Diff("x\n", func() string { b, _ := os.ReadFile(filepath.Join(s.dir, "term")); return string(b) }()); diff != "" {
		t.Errorf("SIGTERM was sent again (-want +got):\n%s", diff)
	}
}
