// Package election makes the Leases by which one of several replicas works at a time.
package election

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// requestTimeout bounds one request. It is half of the ten seconds within which a leader must have renewed its Lease, so that
// one request that hangs does not end its term.
const requestTimeout = 5 * time.Second

// namespaceFile is where Kubernetes tells a Pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

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
}

// NewLock returns the Lease as a lock. Its holder is called by the name of its host and a random part.
//
// A Lease that is created here belongs to the ServiceAccount of this process, where that lives in the same namespace. So the
// garbage collector takes it away with the account, also where nobody deletes the namespace, as when OLM uninstalls a bundle.
func NewLock(options Options) (*resourcelock.LeaseLock, error) {
	namespace, err := podNamespace(options.Namespace)
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
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: options.Name},
		Client:     ownedLeases{leases: leases, reviews: reviews},
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: options.Recorder},
	}, nil
}

// podNamespace returns namespace, or that of the Pod where it is empty.
func podNamespace(namespace string) (string, error) {
	if namespace != "" {
		return namespace, nil
	}
	raw, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "", fmt.Errorf("leader election needs a namespace for its Lease, and this is no Pod that has one: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// ownedLeases are Leases that belong to the ServiceAccount that creates them.
type ownedLeases struct {
	leases  coordinationclient.LeasesGetter
	reviews authenticationclient.SelfSubjectReviewsGetter
}

// Leases returns those of one namespace.
func (o ownedLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return ownedLeasesIn{LeaseInterface: o.leases.Leases(namespace), namespace: namespace, reviews: o.reviews}
}

type ownedLeasesIn struct {
	coordinationclient.LeaseInterface
	namespace string
	reviews   authenticationclient.SelfSubjectReviewsGetter
}

// Create gives the Lease its owner. One that is there already keeps those that it has: API servers that check owner references
// let only those change them who may delete the object.
func (l ownedLeasesIn) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	owner, err := accountIn(ctx, l.reviews, l.namespace)
	if err != nil {
		return nil, err
	}
	if owner != nil {
		lease.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return l.LeaseInterface.Create(ctx, lease, opts)
}
