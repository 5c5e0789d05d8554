package certificates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// What config/certmanager makes for the webhooks, with the prefix of the overlay.
const (
	webhookCertificate = "kruntimes-webhook"
	webhookSecret      = "kruntimes-webhook-certificate"
	authority          = "kruntimes-webhook-authority"
	authoritySecret    = "kruntimes-webhook-authority"
	webhookName        = "kruntimes-webhook." + config.Namespace + ".svc"
)

// TestCertificatesAreRenewedUnderLoad installs config/default, waits for what cert-manager makes of it, and renews it in every
// way while Runs and Workflows are created: not one request may be refused for it, and the manager may not restart.
func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	controllers := startCertManager(t)
	objects := install(t)
	manager := startDeployment(t, objects, "kruntimes-manager", "manager")
	r := newRotation(t, manager)
	stop := r.start()
	defer stop()
	shaking := r.shakeHands()
	defer shaking()

	for i := range 3 {
		r.renewed(fmt.Sprintf("renewal %d", i+1), func() { r.issue(webhookCertificate) })
	}
	r.renewed("a deleted Secret", func() {
		shared.Delete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: config.Namespace, Name: webhookSecret}})
	})
	// The authority keeps its key when it is renewed: what it has signed before is still trusted.
	r.authorityRenewed(func() { r.issue(authority) })
	r.renewed("a renewal by the renewed authority", func() { r.issue(webhookCertificate) })
	// Another key: the API server learns of it when the next certificate is made, before a kubelet can have mounted that.
	r.authorityRenewed(func() {
		shared.Delete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: config.Namespace, Name: authoritySecret}})
	})
	manager.mounts[webhookSecret].hold(true)
	before := r.trusted()
	r.renewed("a renewal by another authority", func() {
		r.issue(webhookCertificate)
		await(t, "the other authority to be trusted", func() error {
			if r.trusted() == before {
				return errors.New("the bundle is the same")
			}
			return nil
		})
		manager.mounts[webhookSecret].hold(false)
	})

	controllers.Stop(syscall.SIGTERM, patience)
	r.goesOn("without cert-manager", 50)
	manager.isRunning(t)
	stop()
	shaking()
	t.Logf("answered: %d Runs created, %d Runs and %d Workflows refused as they should be, %d asked again in time; %d handshakes, %d connections of the API server",
		r.answered[0].Load(), r.answered[1].Load(), r.answered[2].Load(), r.late.Load(), r.shakes.Load(), network.connections())
}

// rotation is a load on a manager whose certificates are renewed.
type rotation struct {
	*load
	manager *pod
	shakes  atomic.Int64
}

// newRotation makes a namespace with a workspace and a developer, and waits until the manager decides.
func newRotation(t *testing.T, manager *pod) *rotation {
	t.Helper()
	r := &rotation{load: &load{T: t, namespace: shared.Namespace(t)}, manager: manager}
	r.dev = cluster.Client(t, shared.User(t, r.namespace, "dev",
		rbacv1.PolicyRule{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"workflows.kruntimes.io"}, Resources: []string{"workflows"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"workspaces.kruntimes.io"}, Resources: []string{"persistentworkspaces/use"}, Verbs: []string{"use"}}))
	shared.Create(t, &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "ci"},
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}})
	for _, first := range []func(context.Context) error{r.usesAWorkspace, r.namesNoWorkspace, r.isACircle} {
		await(t, "the manager to decide", func() error { return first(t.Context()) })
	}
	return r
}

// shakeHands makes connections of its own as the API server makes them, all the time: the API server itself keeps the ones that
// it has for as long as they last.
func (r *rotation) shakeHands() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * pace)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			trusted, err := bundle(r.Context(), shared.Admin())
			if err == nil {
				_, err = shake(r.Context(), r.manager.addresses["webhook"], webhookName, trusted)
			}
			if err != nil {
				r.Errorf("connecting after %d times: %v", r.shakes.Load(), err)
				continue
			}
			r.shakes.Add(1)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// trusted is the bundle of the webhooks.
func (r *rotation) trusted() string {
	r.Helper()
	found, err := bundle(r.Context(), shared.Admin())
	if err != nil {
		r.Fatal(err)
	}
	return string(found)
}

// renewed waits until another certificate is served after change, has the API server connect anew, and lets the load go on.
func (r *rotation) renewed(what string, change func()) {
	r.Helper()
	address := r.manager.addresses["webhook"]
	before, err := shake(r.Context(), address, webhookName, []byte(r.trusted()))
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
	change()
	await(r.T, what+" to be served", func() error {
		now, err := shake(r.Context(), address, webhookName, []byte(r.trusted()))
		if err == nil && now.SerialNumber.Cmp(before.SerialNumber) == 0 {
			err = errors.New("it is the certificate from before")
		}
		return err
	})
	connections := network.connections()
	r.gate.Lock()
	ended := network.cut()
	r.gate.Unlock()
	r.goesOn(what, 10)
	if ended == 0 || network.connections() == connections {
		r.Errorf("%s: %d connections were cut and %d made: the API server was shown no certificate", what, ended, network.connections()-connections)
	}
	r.manager.isRunning(r.T)
}

// authorityRenewed waits until there is another certificate of the authority.
func (r *rotation) authorityRenewed(change func()) {
	r.Helper()
	read := func() (string, error) {
		secret := &corev1.Secret{}
		err := shared.Admin().Get(r.Context(), client.ObjectKey{Namespace: config.Namespace, Name: authoritySecret}, secret)
		return string(secret.Data[corev1.TLSCertKey]), err
	}
	before, err := read()
	if err != nil {
		r.Fatal(err)
	}
	change()
	await(r.T, "another certificate of the authority", func() error {
		now, err := read()
		if err == nil && (now == before || now == "") {
			err = errors.New("it is the same")
		}
		return err
	})
	r.goesOn("a renewed authority", 10)
}

// goesOn waits until each stream has had so many answers more.
func (r *rotation) goesOn(what string, answers int64) {
	r.Helper()
	var want [len(r.answered)]int64
	for i := range want {
		want[i] = r.answered[i].Load() + answers
	}
	await(r.T, "the load to go on: "+what, func() error {
		for i := range want {
			if got := r.answered[i].Load(); got < want[i] {
				return fmt.Errorf("stream %d has %d answers, not %d", i, got, want[i])
			}
		}
		return nil
	})
}

// issue asks cert-manager for another certificate, as "cmctl renew" does.
func (r *rotation) issue(name string) {
	r.Helper()
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	key := client.ObjectKey{Namespace: config.Namespace, Name: name}
	cluster.Eventually(r.T, "Certificate "+name+" to be ready", func(ctx context.Context) (bool, error) {
		if err := shared.Admin().Get(ctx, key, certificate); err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(certificate.Object, "status", "conditions")
		text, _ := json.Marshal(conditions)
		if !strings.Contains(string(text), `"status":"True","type":"Ready"`) || strings.Contains(string(text), `"status":"True","type":"Issuing"`) {
			return false, fmt.Errorf("its conditions are %s", text)
		}
		conditions = append(conditions, map[string]any{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
			"message": "the test asks for it", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)})
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": certificate.GetResourceVersion()},
			"status": map[string]any{"conditions": conditions}})
		if err != nil {
			return false, err
		}
		return true, shared.Admin().Status().Patch(ctx, certificate, client.RawPatch(types.MergePatchType, patch))
	})
}
