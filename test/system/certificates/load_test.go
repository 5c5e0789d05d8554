package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// pace is the time between two requests of a stream.
const pace = 20 * time.Millisecond

// load is a constant stream of requests about which the API server asks the manager. Each has to be answered, and rightly.
type load struct {
	*testing.T
	dev       client.Client
	namespace string
	// gate is read-locked by requests, and locked to cut connections in between: a request that is cut off in the middle
	// would be lost with any certificate.
	gate     sync.RWMutex
	answered [3]atomic.Int64
	late     atomic.Int64
}

// start sends requests until the function that it returns is called.
func (l *load) start() (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	var wg sync.WaitGroup
	for i, request := range []func(context.Context) error{l.usesAWorkspace, l.namesNoWorkspace, l.isACircle} {
		wg.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				l.once(ctx, request, &l.answered[i])
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func (l *load) once(ctx context.Context, request func(context.Context) error, answered *atomic.Int64) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	// Not ctx: the end of the load is not to cut a request off.
	switch err := request(l.Context()); {
	case err == nil:
		answered.Add(1)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
	case strings.Contains(err.Error(), "in time: try again"):
		l.late.Add(1) // the manager's own answer, on a machine that is busy with other suites
	default:
		l.Errorf("after %d, %d and %d answers: %v", l.answered[0].Load(), l.answered[1].Load(), l.answered[2].Load(), err)
	}
}

// usesAWorkspace creates a Run in a workspace that its creator may use.
func (l *load) usesAWorkspace(ctx context.Context) error {
	if err := l.dev.Create(ctx, l.run("ci")); err != nil {
		return fmt.Errorf("a Run that names a workspace was refused: %w", err)
	}
	return nil
}

// namesNoWorkspace has to be refused by the manager.
func (l *load) namesNoWorkspace(ctx context.Context) error {
	err := l.dev.Create(ctx, l.run("nowhere"), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "has no PersistentWorkspace") {
		return fmt.Errorf("a Run in a workspace that does not exist: %w", orNone(err))
	}
	return nil
}

// isACircle has to be refused by the manager; where it is not asked, or does not answer, such a Workflow is admitted.
func (l *load) isACircle(ctx context.Context) error {
	circle := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, GenerateName: "circle-"},
		Spec: workflowsv1alpha1.WorkflowSpec{Jobs: map[string]workflowsv1alpha1.Job{
			"a": {RunsOn: "sh", Needs: []string{"a"}, Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}}}
	err := l.dev.Create(ctx, circle, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "the job needs itself: a -> a") {
		return fmt.Errorf("a Workflow whose job needs itself: %w", orNone(err))
	}
	return nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("admitted")
	}
	return err
}

func (l *load) run(workspace string) *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, GenerateName: "load-"},
		Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"},
			Workspace: &corev1alpha1.WorkspaceReference{Name: workspace}}}
}

// bundle returns what the API server trusts, which has to be the same in all configurations.
func bundle(ctx context.Context, reader client.Reader) ([]byte, error) {
	var found []byte
	for _, name := range configurations {
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
			return nil, err
		}
		for _, webhook := range configuration.Webhooks {
			if len(webhook.ClientConfig.CABundle) == 0 {
				return nil, fmt.Errorf("webhook %s trusts nobody", webhook.Name)
			}
			found = webhook.ClientConfig.CABundle
		}
	}
	return found, nil
}

// shake makes a connection as the API server does, and returns the certificate that it was shown.
func shake(ctx context.Context, address, name string, trusted []byte) (*x509.Certificate, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted) {
		return nil, errors.New("nobody is trusted")
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}
