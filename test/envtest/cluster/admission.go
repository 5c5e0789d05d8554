package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/pki"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/manager"
)

const loopback = "127.0.0.1"

// admission is what connects the API server with managers. No manager runs all the time in a suite, so the API server asks
// none until Ask says whom.
type admission struct {
	// authority is the PEM of what the API server trusts, certificates the directory with what managers show it.
	authority    []byte
	certificates string
	// webhooks are what the overlay holds, by name.
	webhooks map[string]*unstructured.Unstructured
}

// newAdmission makes certificates for managers.
func newAdmission() (a admission, err error) {
	a.webhooks = map[string]*unstructured.Unstructured{}
	if a.certificates, err = os.MkdirTemp("", "kruntimes-webhook-"); err != nil {
		return admission{}, fmt.Errorf("making a directory for certificates: %w", err)
	}
	if a.authority, err = writeCertificates(a.certificates); err != nil {
		return admission{}, errors.Join(err, os.RemoveAll(a.certificates))
	}
	return a, nil
}

// writeCertificates makes a certificate for managers, of an authority that is returned as PEM.
func writeCertificates(dir string) (authority []byte, err error) {
	made, err := pki.NewAuthority(time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := made.Server("webhook", loopback)
	if err != nil {
		return nil, err
	}
	return made.CertPEM, pair.WriteFiles(dir, "tls")
}

// UntrustedCertificates returns a directory with a certificate for a manager that the API server does not trust.
func UntrustedCertificates(tb testing.TB) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	if _, err := writeCertificates(dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// options let one manager answer the API server, at an address of its own.
func (a admission) options(tb testing.TB) manager.AdmissionOptions {
	tb.Helper()
	port, err := ports.Free()
	if err != nil {
		tb.Fatal(err)
	}
	return manager.AdmissionOptions{
		Address: net.JoinHostPort(loopback, strconv.Itoa(port)), CertDir: a.certificates,
		Controller: config.Namespace + "/" + config.ManagerServiceAccount,
	}
}

// Ask makes the API server ask the manager at address about Runs with a workspace in one namespace, as the installed
// configuration does for all namespaces, until the test ends. The manager need not be there: then such Runs are refused.
func (c *Cluster) Ask(tb testing.TB, namespace, address string) {
	tb.Helper()
	c.ask(tb, config.WorkspaceUseWebhooks, namespace, address)
	Eventually(tb, "the webhook to be asked", func(ctx context.Context) (bool, error) {
		probe := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "webhook-probe"}, Spec: corev1alpha1.RunSpec{
			Runtime: "webhook-probe", Workspace: &corev1alpha1.WorkspaceReference{Name: "webhook-probe"},
			Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"true"}}}}}
		err := c.admin.Create(ctx, probe, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "workspace-use.kruntimes.io"), nil
	})
}

// AskForEarlyWords makes the API server ask the manager at address about definitions and WorkflowRuns in one namespace, as the
// installed configuration does for all namespaces, until the test ends. The manager need not be there: then they are admitted.
func (c *Cluster) AskForEarlyWords(tb testing.TB, namespace, address string) {
	tb.Helper()
	c.ask(tb, config.WorkflowValidityWebhooks, namespace, address)
}

// ReachAt changes webhooks so that the API server reaches the manager at address, whose certificate it trusts.
func (c *Cluster) ReachAt(tb testing.TB, webhooks *unstructured.Unstructured, address string) {
	tb.Helper()
	if err := config.ReachWebhooksAt(webhooks, "https://"+address, c.admission.authority); err != nil {
		tb.Fatal(err)
	}
}

// ask installs a configuration for one namespace until the test ends.
func (c *Cluster) ask(tb testing.TB, configuration, namespace, address string) {
	tb.Helper()
	webhooks := c.admission.webhooks[configuration].DeepCopy()
	webhooks.SetName(webhooks.GetName() + "-" + namespace)
	if err := config.ReachWebhooksAt(webhooks, "https://"+address, c.admission.authority); err != nil {
		tb.Fatal(err)
	}
	list, _, _ := unstructured.NestedSlice(webhooks.Object, "webhooks")
	for _, webhook := range list {
		webhook.(map[string]any)["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: namespace}}
	}
	if err := unstructured.SetNestedSlice(webhooks.Object, list, "webhooks"); err != nil {
		tb.Fatal(err)
	}
	c.Create(tb, webhooks)
	tb.Cleanup(func() {
		if err := c.admin.Delete(context.WithoutCancel(tb.Context()), webhooks); err != nil {
			tb.Errorf("deleting the webhooks of %s: %v", namespace, err)
		}
	})
}
