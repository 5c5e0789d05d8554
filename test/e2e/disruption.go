package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/devcluster/process"
)

// WithGrace gives the Pods of a Runtime this grace period.
func WithGrace(seconds int64) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
}

// Evict asks for the end of a Pod as a drain of its node does.
func (e *Env) Evict(pod *corev1.Pod) error {
	return e.Client.SubResource("eviction").Create(e.t.Context(), pod, &policyv1.Eviction{})
}

// Finally runs kubectl at the end of the test, also of one that failed. It uses a context of its own: that of the test has
// ended by then.
func (e *Env) Finally(stdin string, args ...string) {
	e.t.Helper()
	e.t.Cleanup(func() {
		ctx := context.WithoutCancel(e.t.Context())
		result, err := execute(ctx, stdin, Setting("KUBECTL"), append([]string{"--kubeconfig=" + Setting("KUBECONFIG")}, args...))
		if err != nil || result.Code != 0 {
			e.t.Errorf("kubectl %s: %+v %v", strings.Join(args, " "), result, err)
		}
	})
}

// Installation returns what config/default renders with these components, as docs/operations.md tells to add them, and with
// the images of IMG.
func (e *Env) Installation(components ...string) string {
	e.t.Helper()
	tree := e.t.TempDir()
	if err := os.CopyFS(tree, os.DirFS(filepath.Join(root(), "config"))); err != nil {
		e.t.Fatalf("copying config: %v", err)
	}
	kustomize, err := filepath.Abs(Setting("KUSTOMIZE"))
	if err != nil {
		e.t.Fatalf("finding kustomize: %v", err)
	}
	edit := func(args ...string) {
		cmd := exec.CommandContext(e.t.Context(), kustomize, append([]string{"edit"}, args...)...)
		cmd.Dir = filepath.Join(tree, "default")
		if output, err := cmd.CombinedOutput(); err != nil {
			e.t.Fatalf("kustomize edit %s: %v: %s", strings.Join(args, " "), err, output)
		}
	}
	for _, component := range components {
		edit("add", "component", "../components/"+component)
	}
	edit(append([]string{"set", "image"}, ImageEdits()...)...)
	args := []string{"build", filepath.Join(tree, "default")}
	return e.must(e.execute("", kustomize, args), "kustomize", args)
}

// webhookService is the Service at which the API server asks the manager, and webhookSecret holds its certificate.
const (
	webhookService = "kruntimes-webhook"
	webhookSecret  = "kruntimes-webhook-certificate"
)

// ServedCertificate returns how to learn with which certificate the manager answers the API server now. It fails the test
// where that is not by the authority in the Secret.
func (e *Env) ServedCertificate() func() (*x509.Certificate, error) {
	e.t.Helper()
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(e.WebhookSecret().Data["ca.crt"])
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Timeout: 10 * time.Second},
		Config:    &tls.Config{RootCAs: authorities, ServerName: webhookService + "." + SystemNamespace + ".svc"},
	}
	address := e.forwardToWebhook()
	return func() (*x509.Certificate, error) {
		conn, err := dialer.DialContext(e.t.Context(), "tcp", address)
		if err != nil { // One connection that ends badly ends the forwarding of all.
			address = e.forwardToWebhook()
			conn, err = dialer.DialContext(e.t.Context(), "tcp", address)
		}
		if err != nil {
			return nil, fmt.Errorf("connecting to the manager: %w", err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
	}
}

// forwardToWebhook returns an address that leads to the manager's webhook until the test ends.
func (e *Env) forwardToWebhook() string {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), Setting("KUBECTL"), "--kubeconfig="+Setting("KUBECONFIG"),
		"--namespace="+SystemNamespace, "port-forward", "deployment/kruntimes-manager", ":9443")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		e.t.Fatalf("reaching the manager: %v", err)
	}
	cmd.SysProcAttr = process.Attributes(syscall.SIGKILL) // also when go test's -timeout ends this process
	if err := process.StartBound(cmd); err != nil {
		e.t.Fatalf("reaching the manager: %v", err)
	}
	e.t.Cleanup(func() { _ = cmd.Wait() }) // it was killed with the test's context
	line, err := bufio.NewReader(stdout).ReadString('\n')
	words := strings.Fields(line) // Forwarding from 127.0.0.1:43210 -> 9443
	if err != nil || len(words) < 3 {
		e.t.Fatalf("reaching the manager: %q %v", line, err)
	}
	return words[2]
}

// WebhookSecret reads the Secret with the certificate of the webhook. It is empty while it is not there.
func (e *Env) WebhookSecret() *corev1.Secret {
	e.t.Helper()
	secret := &corev1.Secret{}
	err := e.Client.Get(e.t.Context(), client.ObjectKey{Namespace: SystemNamespace, Name: webhookSecret}, secret)
	if client.IgnoreNotFound(err) != nil {
		e.t.Fatalf("reading the Secret of the webhook: %v", err)
	}
	return secret
}
