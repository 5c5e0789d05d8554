// Package cluster starts a real etcd and kube-apiserver for a test suite, with the definitions, roles and admission
// policies of kruntimes installed as "krt dev" installs them, and hands out identities: the administrator, users with
// given rights, ServiceAccounts, and Pods with tokens bound to them.
//
// There is no kubelet, no controller manager and no garbage collector: Pods are made by hand. A suite shares one
// control plane per package and takes a namespace per test:
//
//	var shared *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		shared = cluster.MustStart()
//		defer shared.Stop()
//		m.Run()
//	}
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/devcluster/controlplane"
)

// Deadline is how long the functions of this package, and Eventually, wait before they give a test up.
const Deadline = 2 * time.Minute

// startDeadline leaves time to build the binaries where nothing is cached.
const startDeadline = 30 * time.Minute

// startTimeout is how long etcd and the API server may take to be ready on a machine that is busy otherwise.
const startTimeout = 3 * time.Minute

// Cluster is a running control plane.
type Cluster struct {
	env       *envtest.Environment
	config    *rest.Config
	admin     client.Client
	admission admission
}

// MustStart starts a control plane and panics where it cannot, which ends the test binary with a failure.
func MustStart() *Cluster { return mustStart(nil) }

// MustStartWithOwnersEnforced is MustStart with an admission plugin that some distributions have on: it refuses changes of the owners of
// what one may not delete. It is for suites in which the components change owners; where users try to, it would hide what the
// policies refuse.
func MustStartWithOwnersEnforced() *Cluster {
	return mustStart(map[string]string{"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"})
}

func mustStart(arguments map[string]string) *Cluster {
	c, err := start(arguments)
	if err == nil {
		err = c.installed()
	}
	if err != nil {
		panic(err)
	}
	return c
}

// MustStartBare is MustStart with nothing installed, for suites that install themselves what they try. The arguments are
// further ones of the API server, by name and without dashes.
func MustStartBare(arguments map[string]string) *Cluster {
	c, err := start(arguments)
	if err != nil {
		panic(err)
	}
	return c
}

func start(arguments map[string]string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
	defer cancel()
	assets, err := controlplane.Ensure(ctx, controlplane.EnsureOptions{
		Progress: os.Stderr, Environ: os.Environ(), Binaries: []controlplane.Binary{controlplane.Etcd, controlplane.APIServer}})
	if err != nil {
		return nil, fmt.Errorf("providing the control plane's binaries: %w", err)
	}
	c := &Cluster{env: &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: startTimeout}}
	for name, value := range arguments {
		c.env.ControlPlane.GetAPIServer().Configure().Append(name, value)
	}
	cfg, err := c.env.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	cfg.QPS = -1
	c.config = cfg
	if c.admission, err = newAdmission(); err == nil {
		c.admin, err = client.New(cfg, client.Options{Scheme: Scheme()})
	}
	if err != nil {
		return nil, errors.Join(err, c.env.Stop())
	}
	return c, nil
}

// installed installs the dev overlay, and stops the control plane where that fails.
func (c *Cluster) installed() error {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
	defer cancel()
	if err := c.install(ctx); err != nil {
		return errors.Join(err, c.env.Stop())
	}
	return nil
}

// Stop ends the control plane. It panics where a process stays behind.
func (c *Cluster) Stop() {
	if err := errors.Join(c.env.Stop(), os.RemoveAll(c.admission.certificates)); err != nil {
		panic(fmt.Errorf("stopping the control plane: %w", err))
	}
}

// Scheme holds the kinds of Kubernetes and of kruntimes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	kinds := []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, corev1alpha1.AddToScheme,
		workspacesv1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme}
	for _, add := range kinds {
		if err := add(scheme); err != nil {
			panic(err) // Only a programming error makes this fail.
		}
	}
	return scheme
}

// Config is the administrator's. It is a copy: change what you like.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is a file with which a program reaches the API server as the administrator.
func (c *Cluster) Kubeconfig() []byte { return c.env.KubeConfig }

// Admin is an uncached client of the administrator.
func (c *Cluster) Admin() client.Client { return c.admin }
