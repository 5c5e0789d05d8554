package krt

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/runtimed/logrecord"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

func TestFollowShowsTheOutputAndEndsLikeTheScript(t *testing.T) {
	namespace := shared.Namespace(t)
	k := newKubelet(t, "follow")
	p := start(t, kubeconfig(t, shared.Config(), namespace), "exit 3\n", "run", "build", "-r", "bash", "-f", "-", "--follow", "--rm", "-q")
	r := onlyRun(t, namespace)
	assign(t, r, k.pod(t, namespace, "pod"))
	k.write(t, line(r, logrecord.Stdout, "one"), line(r, logrecord.Stderr, "two"))
	shows(t, p, "one\n")
	k.write(t, line(r, logrecord.Stdout, "three"), end(r))
	finish(t, r, corev1alpha1.RunFailed, corev1alpha1.RunReasonScriptFailed, 3)
	if code := p.wait(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if diff := cmp.Diff("one\nthree\n", p.out.String()); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if !strings.Contains(p.errOut.String(), "two\nkrt: Run build Failed after ") {
		t.Errorf("stderr %q", p.errOut.String())
	}
	err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(r), &corev1alpha1.Run{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("--rm has left the Run: %v", err)
	}
}

func TestFollowLosesNothingWhenTheLogBreaks(t *testing.T) {
	namespace := shared.Namespace(t)
	k := newKubelet(t, "breaks")
	k.setHangUp(2)
	p := start(t, kubeconfig(t, shared.Config(), namespace), "", "run", "-r", "bash", "--follow", "-q", "--", "true")
	r := onlyRun(t, namespace)
	assign(t, r, k.pod(t, namespace, "pod"))
	k.write(t, line(r, logrecord.Stdout, "one"), line(r, logrecord.Stdout, "two"), line(r, logrecord.Stdout, "three"))
	shows(t, p, "two\n")
	k.setHangUp(0)
	k.write(t, line(r, logrecord.Stdout, "four"), end(r))
	finish(t, r, corev1alpha1.RunSucceeded, "", 0)
	if code := p.wait(t); code != cli.ExitOK {
		t.Errorf("exit code %d, stderr %q", code, p.errOut.String())
	}
	if diff := cmp.Diff("one\ntwo\nthree\nfour\n", p.out.String()); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}

func TestInterruptCancelsTheFollowedRun(t *testing.T) {
	namespace := shared.Namespace(t)
	p := start(t, kubeconfig(t, shared.Config(), namespace), "", "run", "-r", "bash", "--follow", "--", "true")
	r := onlyRun(t, namespace)
	shows(t, p, "created in namespace")
	p.signals <- os.Interrupt
	cluster.Eventually(t, "the Run to be asked to end", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(r), r)
		return r.Spec.CancelRequested, err
	})
	finish(t, r, corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled, 0)
	if code := p.wait(t); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
}

func TestFollowTellsWhyARunWaits(t *testing.T) {
	namespace := shared.Namespace(t)
	p := start(t, kubeconfig(t, shared.Config(), namespace), "", "run", "-r", "bash", "--follow", "--", "true")
	r := onlyRun(t, namespace)
	shows(t, p, "warning: there is no Runtime \"bash\"")
	for _, c := range []metav1.Condition{
		{Reason: corev1alpha1.ReasonRuntimeNotFound, Message: "the namespace has no Runtime"}, // known already
		{Reason: corev1alpha1.ReasonNoPods, Message: "Runtime bash is scaled to 0"},
	} {
		c.Type, c.Status, c.LastTransitionTime = corev1alpha1.RunConditionScheduled, metav1.ConditionFalse, metav1.Now()
		become(t, r, func(s *corev1alpha1.RunStatus) { s.Conditions = []metav1.Condition{c} })
	}
	shows(t, p, "waits: Runtime bash is scaled to 0 (NoPods)\n")
	shared.Delete(t, r)
	if code := p.wait(t); code != cli.ExitFollow {
		t.Errorf("exit code %d, want %d", code, cli.ExitFollow)
	}
	if strings.Contains(p.errOut.String(), corev1alpha1.ReasonRuntimeNotFound) {
		t.Errorf("stderr %q tells twice that there is no Runtime", p.errOut.String())
	}
}

func TestLogs(t *testing.T) {
	namespace := shared.Namespace(t)
	config := kubeconfig(t, shared.Config(), namespace)
	k := newKubelet(t, "logs")
	pod := k.pod(t, namespace, "pod")
	if got := run(t, config, "", "run", "build", "-r", "bash", "--", "true"); got.code != cli.ExitOK {
		t.Fatal(got)
	}
	if got := run(t, config, "", "logs", "build"); got.code != cli.ExitFailed || !strings.Contains(got.errOut, "has no output yet") {
		t.Errorf("of a Run that waits: %+v", got)
	}
	r := onlyRun(t, namespace)
	following := start(t, config, "", "logs", "run/build", "-f")
	assign(t, r, pod)
	k.write(t, line(r, logrecord.Stdout, "one"), line(r, logrecord.Stderr, "\x00\xff"), line(r, logrecord.Stdout, "two"))
	if got := run(t, config, "", "logs", "build", "--tail", "1"); got != (result{out: "two\n"}) {
		t.Errorf("of a Run that executes: %+v", got)
	}
	k.write(t, end(r))
	finish(t, r, corev1alpha1.RunSucceeded, "", 0)
	want := result{out: "one\ntwo\n", errOut: "\x00\xff\n"}
	if got := run(t, config, "", "logs", "build"); got != want {
		t.Errorf("of a Run that has ended: %+v", got)
	}
	code := following.wait(t)
	if got := (result{code: code, out: following.out.String(), errOut: following.errOut.String()}); got != want {
		t.Errorf("followed: %+v", got)
	}
	shared.Delete(t, pod)
	if got := run(t, config, "", "logs", "build"); got.code != cli.ExitFailed || !strings.Contains(got.errOut, "Pod pod no longer exists") {
		t.Errorf("of a Pod that is gone: %+v", got)
	}
}
