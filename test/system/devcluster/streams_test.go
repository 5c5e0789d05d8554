package devcluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// logs returns what the Pod's container main has written.
func logs(t *testing.T, pod *corev1.Pod, options *corev1.PodLogOptions) string {
	t.Helper()
	options.Container = "main"
	out, err := api.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// follower reads the log of a container while it grows.
type follower struct {
	t     *testing.T
	lines chan string
}

func follow(t *testing.T, pod *corev1.Pod) *follower {
	t.Helper()
	stream, err := api.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "main", Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	f := &follower{t: t, lines: make(chan string)}
	go func() {
		defer close(f.lines)
		for scanner := bufio.NewScanner(stream); scanner.Scan(); {
			f.lines <- scanner.Text()
		}
	}()
	return f
}

func (f *follower) next() (line string, ok bool) {
	f.t.Helper()
	select {
	case line, ok = <-f.lines:
		return line, ok
	case <-time.After(patience):
		f.t.Fatalf("no line and no end within %s", patience)
		return "", false
	}
}

func (f *follower) expect(want string) {
	f.t.Helper()
	if line, ok := f.next(); !ok || line != want {
		f.t.Fatalf("followed %q (more: %t), want %q", line, ok, want)
	}
}

func (f *follower) expectEnd() {
	f.t.Helper()
	if line, ok := f.next(); ok {
		f.t.Fatalf("followed %q, want the end", line)
	}
}

func TestLogsAreSelected(t *testing.T) {
	ns := newNamespace(t)
	pod := podOf(shell("main", "echo one; echo two; echo three; echo four; [ -e again ] && exec sleep 6000; touch again; exit 1"))
	pod = awaitPod(t, createPod(t, ns, pod), "the container runs again", func(p *corev1.Pod) bool {
		return isReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	n := func(v int64) *int64 { return &v }
	cases := map[string]struct {
		options corev1.PodLogOptions
		want    string
	}{
		"all":                  {want: "one\ntwo\nthree\nfour\n"},
		"of the run before":    {options: corev1.PodLogOptions{Previous: true}, want: "one\ntwo\nthree\nfour\n"},
		"the last line":        {options: corev1.PodLogOptions{TailLines: n(1)}, want: "four\n"},
		"nothing of long ago":  {options: corev1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Now().Add(time.Hour)}}},
		"all of the last hour": {options: corev1.PodLogOptions{SinceSeconds: n(3600)}, want: "one\ntwo\nthree\nfour\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the container has written all", func() error {
				got := logs(t, pod, tc.options.DeepCopy())
				if diff := cmp.Diff(tc.want, got); diff != "" {
					return fmt.Errorf("lines (-want +got):\n%s", diff)
				}
				return nil
			})
		})
	}
}

func TestFollowedLinesArriveAtOnceAndTheStreamEndsWithTheContainer(t *testing.T) {
	ns := newNamespace(t)
	pod := awaitReady(t, createPod(t, ns, podOf(shell("main", "echo up; while read line; do :; done <&0; while ! [ -e say ]; do sleep 0.01; done; cat say; exec sleep 6000"))))
	f := follow(t, pod)
	f.expect("up")
	mustExec(t, pod, "echo said >saying; mv saying say")
	f.expect("said")
	if err := api.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.expectEnd()
}

func TestLogsOfAContainerThatWaitsSayWhy(t *testing.T) {
	ns := newNamespace(t)
	container := shell("main", "true")
	container.Image = "invalid/image"
	pod := awaitPod(t, createPod(t, ns, podOf(container)), "the container waits", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	_, err := api.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "main"}).Stream(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is waiting to start") {
		t.Errorf("logs: %v, want a word that it is waiting to start", err)
	}
}

// session is what a command in a container said and how it ended.
type session struct {
	Out, Err string
	Code     int
}

// execIn runs a command in the container main of pod, by SPDY or by a web socket.
func execIn(ctx context.Context, pod *corev1.Pod, webSocket bool, options corev1.PodExecOptions, stdin io.Reader) (session, error) {
	var s session
	options.Container, options.Stdin, options.Stdout, options.Stderr = "main", stdin != nil, true, !options.TTY
	request := api.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("exec").VersionedParams(&options, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(cluster.Config(), http.MethodPost, request.URL())
	if webSocket {
		executor, err = remotecommand.NewWebSocketExecutor(cluster.Config(), http.MethodGet, request.URL().String())
	}
	if err != nil {
		return s, err
	}
	var out, errOut bytes.Buffer
	streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: &out, Tty: options.TTY}
	if !options.TTY {
		streams.Stderr = &errOut
	}
	err = executor.StreamWithContext(ctx, streams)
	s.Out, s.Err = out.String(), errOut.String()
	var exit utilexec.CodeExitError
	if errors.As(err, &exit) {
		s.Code, err = exit.Code, nil
	}
	return s, err
}

func mustExec(t *testing.T, pod *corev1.Pod, script string) {
	t.Helper()
	s, err := execIn(t.Context(), pod, false, corev1.PodExecOptions{Command: []string{"sh", "-c", script}}, nil)
	if err != nil || s.Code != 0 {
		t.Fatalf("exec %q: %+v, %v", script, s, err)
	}
}

func TestExec(t *testing.T) {
	ns := newNamespace(t)
	container := shell("main", "echo $$ >/data/pid; exec sleep 6000")
	container.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod := podOf(container)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod = awaitReady(t, createPod(t, ns, pod))
	sh := func(script string) corev1.PodExecOptions {
		return corev1.PodExecOptions{Command: []string{"sh", "-c", script}}
	}
	cases := map[string]struct {
		options corev1.PodExecOptions
		stdin   io.Reader
		want    session
	}{
		"both streams and the exit code":         {sh("echo out; echo err >&2; exit 7"), nil, session{"out\n", "err\n", 7}},
		"the environment of the container":       {sh("echo $GREETING"), nil, session{"hello\n", "", 0}},
		"nothing of the developer's environment": {sh("echo [$" + secretVariable + "]"), nil, session{"[]\n", "", 0}},
		"the volumes of the container":           {sh("test -s /data/pid && echo there"), nil, session{"there\n", "", 0}},
		"input":                                  {corev1.PodExecOptions{Command: []string{"cat"}}, strings.NewReader("in\x00put"), session{"in\x00put", "", 0}},
		"a megabyte in and out":                  {corev1.PodExecOptions{Command: []string{"cat"}}, strings.NewReader(strings.Repeat("x", 1<<20)), session{strings.Repeat("x", 1<<20), "", 0}},
		"death by a signal":                      {sh("kill -9 $$"), nil, session{"", "", 137}},
		"a terminal":                             {corev1.PodExecOptions{Command: []string{"sh", "-c", "test -t 0 && echo terminal"}, TTY: true}, nil, session{"terminal\r\n", "", 0}},
		"a terminal with input":                  {corev1.PodExecOptions{Command: []string{"sh", "-c", "stty -echo; echo go; read a; echo got $a"}, TTY: true}, strings.NewReader("x\n"), session{"", "", 0}},
	}
	for name, tc := range cases {
		for _, webSocket := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, web socket %t", name, webSocket), func(t *testing.T) {
				stdin := tc.stdin
				if reader, ok := stdin.(*strings.Reader); ok {
					_, _ = reader.Seek(0, io.SeekStart)
				}
				got, err := execIn(t.Context(), pod, webSocket, tc.options, stdin)
				if err != nil {
					t.Fatal(err)
				}
				if tc.options.TTY && tc.stdin != nil { // the echo of the terminal may come before or not at all
					if !strings.HasSuffix(got.Out, "got x\r\n") {
						t.Errorf("output %q, want it to end with what was typed", got.Out)
					}
					return
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
	if _, err := execIn(t.Context(), pod, false, corev1.PodExecOptions{Command: []string{"/no/such"}}, nil); err == nil ||
		!strings.Contains(err.Error(), "not a program on this host") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestOnlyTheAPIServerReachesTheNode(t *testing.T) {
	node, err := api.CoreV1().Nodes().Get(t.Context(), "dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/healthz", node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	admin, err := tls.X509KeyPair(cluster.Config().CertData, cluster.Config().KeyData)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]tls.Certificate{
		"nobody":                             nil,
		"another client of the same cluster": {admin},
	}
	for name, certificates := range cases {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: certificates, InsecureSkipVerify: true}}}
			response, err := client.Get(url)
			if err == nil {
				_ = response.Body.Close()
				t.Errorf("the node answered %s", response.Status)
			}
		})
	}
}

func TestForwardingAPortIsRefusedWithAReason(t *testing.T) {
	pod := awaitPod(t, createPod(t, newNamespace(t), podOf(shell("main", "exec sleep 6000"))), "the container runs", isReady)
	transport, upgrader, err := spdy.RoundTripperFor(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	url := api.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	_, _, err = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url).Dial(portforward.PortForwardProtocolV1Name)
	if want := "a dev cluster forwards no ports: what its Pods listen on is on 127.0.0.1 of this machine already"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q in it", err, want)
	}
}
