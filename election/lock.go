// Package election makes the Leases by which one of several replicas works at a time.
package election

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// The times of all elections here. They are the defaults of controller-runtime.
const (
	// LeaseDuration after the last renewal that it has seen, somebody else may take the Lease.
	LeaseDuration = 15 * time.Second
	// RenewDeadline after its last renewal, a leader ends its term.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is how often a leader renews, and the others look.
	RetryPeriod = 2 * time.Second

	// requestTimeout bounds one request for a Lease, so that a leader can try again when one hangs.
	requestTimeout = RenewDeadline / 2
	// reviewTimeout bounds the question who this process is, which comes before the creation of a Lease.
	reviewTimeout = 2 * time.Second

	// namespaceFile is where Kubernetes tells a Pod its namespace.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Options say whose Lease it is.
type Options struct {
	// Config reaches the API server. Required.
	Config *rest.Config
	// Namespace holds the Lease. Default: that of the Pod.
	Namespace string
	// Name is that of the Lease. Required.
	Name string
	// Recorder is told who leads now. Default: nobody is told.
	Recorder resourcelock.EventRecorder

	// namespaceFile is what holds the namespace of the Pod. Default: namespaceFile.
	namespaceFile string
}

// NewLock returns the Lease as a lock. Its holder is called by the name of its host and a random part.
//
// A Lease that is created here belongs to the ServiceAccount of this process, where that lives in the same namespace. So the
// garbage collector takes it away with the account, also where nobody deletes the namespace, as when OLM uninstalls a bundle.
func NewLock(options Options) (resourcelock.Interface, error) {
	namespace, err := options.namespace()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the host's name: %w", err)
	}
	config := rest.CopyConfig(options.Config)
	config.Timeout = requestTimeout
	leases, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for Leases: %w", err)
	}
	reviews, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client that asks for our own name: %w", err)
	}
	return &lock{clock: clock.RealClock{}, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: options.Name},
		Client:     ownedLeases{leases: leases, reviews: reviews},
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: options.Recorder},
	}}, nil
}

// namespace returns that of the Lease.
func (o *Options) namespace() (string, error) {
	if o.Namespace != "" {
		return o.Namespace, nil
	}
	file := o.namespaceFile
	if file == "" {
		file = namespaceFile
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("leader election needs a namespace for its Lease, and this is no Pod that has one: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// lock is a Lease that nobody takes by creating it anew while its last holder may still work. The elector of client-go creates
// one that is gone at once, whoever held it.
type lock struct {
	*resourcelock.LeaseLock
	clock clock.PassiveClock

	mu sync.Mutex
	// last is the record that was read last, and until is when its holder, somebody else, has to have ended; zero for nobody.
	last  []byte
	until time.Time
}

// Get reads the Lease, and remembers how long its holder may work.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case record.HolderIdentity == "" || record.HolderIdentity == l.Identity():
		l.until = time.Time{}
	case !bytes.Equal(raw, l.last): // It was renewed since.
		l.until = l.clock.Now().Add(time.Duration(record.LeaseDurationSeconds) * time.Second)
	}
	l.last = raw
	return record, raw, nil
}

// Create takes a Lease that is not there, unless somebody else held it a moment ago.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	left := l.until.Sub(l.clock.Now())
	l.mu.Unlock()
	if left > 0 {
		return fmt.Errorf("the Lease %s is gone, and its last holder may work for %s yet", l.Describe(), left.Round(time.Second))
	}
	return l.LeaseLock.Create(ctx, record)
}
