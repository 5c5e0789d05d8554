package runtimed

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed"
	"kruntimes.io/kruntimes/runtimed/executor"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// crashEnv marks a child of the test binary that is a runtimed which dies at a chosen write. It holds a crashPlan.
const crashEnv = "KRUNTIMES_TEST_CRASH"

// crashPlan says where a runtimed dies.
type crashPlan struct {
	// Dir is the directory of the node, Namespace, Pod and UID name the Pod.
	Dir, Namespace, Pod, UID string
	// Write counts the writes to the API from 1; After tells that the write still gets through.
	Write int
	After bool
}

// crashingTransport kills the process at the write that the plan names.
type crashingTransport struct {
	next   http.RoundTripper
	plan   crashPlan
	writes int
}

func (c *crashingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch {
		return c.next.RoundTrip(request)
	}
	c.writes++
	if c.writes != c.plan.Write {
		return c.next.RoundTrip(request)
	}
	if c.plan.After {
		_, _ = c.next.RoundTrip(request) // the answer is lost with the process
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// runCrashing is runtimed as the child of the test binary.
func runCrashing() int {
	var plan crashPlan
	if err := json.Unmarshal([]byte(os.Getenv(crashEnv)), &plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	config, err := runtimed.InClusterConfig(
		os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"), filepath.Join(plan.Dir, "token"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return &crashingTransport{next: next, plan: plan}
	}
	err = runtimed.Run(context.Background(), runtimed.Options{
		Pod:    executor.Pod{Name: plan.Pod, Namespace: plan.Namespace, UID: plan.UID},
		Config: config, Socket: filepath.Join(plan.Dir, "socket/runtimed.sock"), Scratch: filepath.Join(plan.Dir, "scratch"),
		State: filepath.Join(plan.Dir, "state"), Workspace: filepath.Join(plan.Dir, "workspace"), Interpreter: []string{"/bin/sh", "-e"}, Stdout: os.Stdout,
	})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (n *node) startCrashing(t *testing.T, plan crashPlan) *process {
	t.Helper()
	plan.Dir, plan.Namespace, plan.Pod, plan.UID = n.dir, n.namespace, n.pod.Name, string(n.pod.UID)
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startAt(t, n, self, "runtimed", nil, append(n.env(t), crashEnv+"="+string(text)))
}

// executions counts how often each Run was executed, by the lines that the scripts append.
func executions(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}

// appending is a script that leaves a line in file each time it is executed, and then does more.
func appending(file, more string) corev1alpha1.RunSpec {
	return script(fmt.Sprintf("echo \"$KRUNTIME_RUN_NAME\" >>%s\n%s", file, more))
}

// TestKilledAtEveryWrite expects that a successor takes the execution over, whether it runs on or has ended meanwhile.
func TestKilledAtEveryWrite(t *testing.T) {
	cases := map[string]struct {
		more   string
		plan   crashPlan
		cancel bool
		want   outcome
	}{
		"before Running is written":                     {more: "sleep 0.5", plan: crashPlan{Write: 1}, want: succeeded(nil)},
		"after Running is written":                      {more: "sleep 0.5", plan: crashPlan{Write: 1, After: true}, want: succeeded(nil)},
		"before the end of a long execution is written": {more: "sleep 0.5", plan: crashPlan{Write: 2}, want: succeeded(nil)},
		"after the end of a long execution is written":  {more: "sleep 0.5", plan: crashPlan{Write: 2, After: true}, want: succeeded(nil)},
		"with outputs and an exit code": {more: "echo a=b >>$KRUNTIME_OUTPUTS; echo why >&2; exit 3", plan: crashPlan{Write: 1},
			want: outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonScriptFailed, ExitCode: ptr.To[int32](3),
				Message: "Exit code 3\nwhy", Outputs: map[string]corev1alpha1.OutputValue{"a": "b"}}},
		"while it sleeps for long": {more: "sleep 3600", plan: crashPlan{Write: 1, After: true}, cancel: true,
			want: outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, ExitCode: ptr.To[int32](143), Message: "Cancelled"}},
		"while it sleeps for long with a timeout": {more: "sleep 3600", plan: crashPlan{Write: 1, After: true},
			want: outcome{Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, ExitCode: ptr.To[int32](143),
				Message: "Stopped after the timeout of 3s"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.startServer(t)
			crashing := n.startCrashing(t, tc.plan)
			file := n.path("executed")
			spec := appending(file, tc.more)
			if tc.want.Reason == corev1alpha1.RunReasonTimeout {
				spec.Timeout = &metav1.Duration{Duration: 3 * time.Second}
			}
			run := n.submit(t, "run", spec)
			crashing.awaitExit(t)
			n.startRuntimed(t)
			if tc.cancel {
				n.awaitReady(t)
				requestCancel(t, run)
			}
			if diff := cmp.Diff(tc.want, outcomeOf(awaitEnd(t, run))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := executions(t, file)["run"]; got != 1 {
				t.Errorf("it was executed %d times", got)
			}
			n.awaitClean(t)
			n.awaitReady(t)
			if next := awaitEnd(t, n.submit(t, "next", script("true"))); next.Status.Phase != corev1alpha1.RunSucceeded {
				t.Errorf("the next Run: %s %s", next.Status.Phase, next.Status.Message)
			}
		})
	}
}

// TestOutputSurvivesKills kills runtimed while an execution writes. Its successors write again what was not known to be
// in safety, and by the numbers of the bytes the log is what the execution wrote.
func TestOutputSurvivesKills(t *testing.T) {
	n := newNode(t)
	n.startServer(t)
	n.startRuntimed(t)
	run := n.submit(t, "run", script(`i=0; while [ $i -lt 3000 ]; do echo "line $i of the output"; i=$((i+1)); [ $((i%100)) -gt 0 ] || sleep 0.05; done`))
	random := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		n.awaitReady(t)
		select {
		case <-time.After(time.Duration(50+random.IntN(200)) * time.Millisecond):
		case <-n.runtimed.done:
			t.Fatal("runtimed ended by itself")
		}
		n.runtimed.kill(t)
		n.startRuntimed(t)
	}
	if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var want, got strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&want, "line %d of the output\n", i)
	}
	repeated := 0
	for _, r := range n.records(t, run) {
		data, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case r.End:
		case r.Byte == int64(got.Len())+1:
			got.Write(data)
		case r.Byte < int64(got.Len()):
			repeated++
		default:
			t.Fatalf("byte %d follows on %d bytes", r.Byte, got.Len())
		}
	}
	t.Logf("%d records were written again", repeated)
	if want.String() != got.String() {
		t.Errorf("%d bytes were written, %d are in the log, or others", want.Len(), got.Len())
	}
}

// TestKilledAtAnyMoment kills runtimed again and again while Runs come in. No Run may be executed twice or hang, and none
// that was executed may be lost: only one that was marked and did not reach the server is.
func TestKilledAtAnyMoment(t *testing.T) {
	const rounds, perRound = 12, 6
	n := newNode(t)
	n.startServer(t)
	file := n.path("executed")
	random := rand.New(rand.NewPCG(1, 2))
	var runs []*corev1alpha1.Run
	for round := range rounds {
		n.startRuntimed(t)
		if round > 0 {
			n.awaitReady(t)
		}
		for i := range perRound {
			more := "true"
			if i%3 == 0 {
				more = "sleep 0.2"
			}
			runs = append(runs, n.submit(t, fmt.Sprintf("run-%d-%d", round, i), appending(file, more)))
		}
		select {
		case <-time.After(time.Duration(random.IntN(150)) * time.Millisecond):
		case <-n.runtimed.done:
			t.Fatal("runtimed ended by itself")
		}
		n.runtimed.kill(t)
	}
	n.startRuntimed(t)
	phases := map[corev1alpha1.RunPhase]int{}
	for _, run := range runs {
		run = awaitEnd(t, run)
		phases[run.Status.Phase]++
		if r := run.Status.Reason; r != "" && r != corev1alpha1.RunReasonExecutionLost {
			t.Errorf("Run %s: reason %s", run.Name, r)
		}
		if got := executions(t, file)[run.Name]; (got == 1) != (run.Status.Phase == corev1alpha1.RunSucceeded) {
			t.Errorf("Run %s was executed %d times: %s %s", run.Name, got, run.Status.Phase, run.Status.Message)
		}
	}
	t.Logf("phases: %v", phases)
	for name, count := range executions(t, file) {
		if count > 1 {
			t.Errorf("%s was executed %d times", name, count)
		}
	}
	n.awaitClean(t)
}

// TestNodeRestarted expects that after a boot of the node no marker is relied upon: they were not synced to disk.
func TestNodeRestarted(t *testing.T) {
	n := newNode(t)
	n.startRuntimed(t)
	cluster.Eventually(t, "the boot id to be recorded", func(context.Context) (bool, error) {
		_, err := os.Stat(n.path("state/boot-id"))
		return err == nil, err
	})
	n.runtimed.kill(t)
	n.write(t, "state/boot-id", "another boot\n")
	run := n.submit(t, "run", script("true"))
	n.startRuntimed(t)
	n.startServer(t)
	if got := awaitEnd(t, run).Status.Reason; got != corev1alpha1.RunReasonExecutionLost {
		t.Errorf("want ExecutionLost, got %q", got)
	}
	n.awaitReady(t)
	if next := awaitEnd(t, n.submit(t, "next", script("true"))); next.Status.Phase != corev1alpha1.RunSucceeded {
		t.Errorf("the next Run: %s %s", next.Status.Phase, next.Status.Message)
	}
}
