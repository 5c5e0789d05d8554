// Package krt tests the command line against a real API server: its commands run as a process would run them, with a
// kubeconfig, and with the logs of a kubelet that the tests play themselves.
package krt

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}

// buffer takes what a command prints while a test looks at it.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// process is a krt that runs.
type process struct {
	out, errOut buffer
	signals     chan os.Signal
	done        chan int
}

// kubeconfig writes the configuration of an identity to a file.
func kubeconfig(t *testing.T, cfg *rest.Config, namespace string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken, Impersonate: cfg.Impersonate.UserName}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	c.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// start starts krt with a kubeconfig.
func start(t *testing.T, kubeconfig, stdin string, args ...string) *process {
	t.Helper()
	p := &process{signals: make(chan os.Signal, 2), done: make(chan int, 1)}
	o := krt.Options{Args: append([]string{"krt", "--kubeconfig", kubeconfig}, args...), In: strings.NewReader(stdin),
		Out: &p.out, ErrOut: &p.errOut, Signals: p.signals, Now: time.Now}
	go func() { p.done <- krt.Main(t.Context(), o) }()
	return p
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.done:
		return code
	case <-time.After(cluster.Deadline):
		t.Fatalf("krt does not end; stdout so far:\n%s\nstderr so far:\n%s", p.out.String(), p.errOut.String())
		return -1
	}
}

// result is what came of a krt.
type result struct {
	code        int
	out, errOut string
}

// run runs krt to its end.
func run(t *testing.T, kubeconfig, stdin string, args ...string) result {
	t.Helper()
	p := start(t, kubeconfig, stdin, args...)
	code := p.wait(t)
	return result{code: code, out: p.out.String(), errOut: p.errOut.String()}
}

// onlyRun waits until the namespace holds a Run, and returns it.
func onlyRun(t *testing.T, namespace string) *corev1alpha1.Run {
	t.Helper()
	var list corev1alpha1.RunList
	cluster.Eventually(t, "a Run to be created", func(ctx context.Context) (bool, error) {
		err := shared.Admin().List(ctx, &list, client.InNamespace(namespace))
		return len(list.Items) == 1, err
	})
	return &list.Items[0]
}

// become writes a status as scheduler and runtimed do, as the administrator who may do both.
func become(t *testing.T, run *corev1alpha1.Run, change func(*corev1alpha1.RunStatus)) {
	t.Helper()
	before := run.DeepCopy()
	change(&run.Status)
	if err := shared.Admin().Status().Patch(t.Context(), run, client.MergeFrom(before)); err != nil {
		t.Fatalf("writing the status of Run %s: %v", run.Name, err)
	}
}

// assign makes a Run Scheduled on a Pod.
func assign(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
	t.Helper()
	become(t, run, func(s *corev1alpha1.RunStatus) {
		now := metav1.NewMicroTime(time.Now())
		s.Phase, s.AssignedPod, s.AssignedPodUID, s.ScheduledTime = corev1alpha1.RunScheduled, pod.Name, string(pod.UID), &now
		s.Attempt++
	})
}

// finish gives a Run its terminal phase.
func finish(t *testing.T, run *corev1alpha1.Run, phase corev1alpha1.RunPhase, reason corev1alpha1.RunReason, code int32) {
	t.Helper()
	become(t, run, func(s *corev1alpha1.RunStatus) {
		now := metav1.NewMicroTime(time.Now())
		s.Phase, s.Reason, s.CompletionTime = phase, reason, &now
		if s.AssignedPod != "" {
			s.ExitCode, s.StartTime = &code, s.ScheduledTime
		}
	})
}
