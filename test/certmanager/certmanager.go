// Package certmanager runs the controllers of cert-manager, as they are in its module, against any API server: the issuers
// that need nobody else (self-signed, and an authority in a Secret), the controllers of Certificates, and the injector of
// authorities. Its admission webhook is left out: it only says early what the controllers say later.
//
// It is a module of its own, so that cert-manager stays out of the graph of the product.
package certmanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	// What registers itself in controller.Known.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// workers is how many objects each controller works on at a time.
	workers = 5
	// syncPatience bounds how long the caches and the definitions may take.
	syncPatience = time.Minute
	// leastBackoff and mostBackoff bound the wait after a request for a certificate failed: short, for tests.
	leastBackoff, mostBackoff = time.Second, time.Minute
)

// Options say against what the controllers run.
type Options struct {
	// Kubeconfig is the file that tells how to reach the API server. Required.
	Kubeconfig string
	// Definitions is the folder with the CRDs of cert-manager; they are applied first. Empty: they are there already.
	Definitions string
	// ClusterNamespace is where Secrets of ClusterIssuers lie. Default: cert-manager.
	ClusterNamespace string
	// Ready, where it is not nil, is called once, when all caches are filled.
	Ready func()
}

// Run applies the CRDs and runs the controllers until ctx ends, or until one of them cannot go on.
func Run(ctx context.Context, options Options) error {
	if options.Kubeconfig == "" {
		return errors.New("no kubeconfig to reach the API server with")
	}
	if options.ClusterNamespace == "" {
		options.ClusterNamespace = "cert-manager"
	}
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", options.Kubeconfig, err)
	}
	if options.Definitions != "" {
		definitions := envtest.CRDInstallOptions{Paths: []string{options.Definitions}, ErrorIfPathMissing: true, MaxTime: syncPatience}
		if _, err := envtest.InstallCRDs(config, definitions); err != nil {
			return fmt.Errorf("applying the definitions in %s: %w", options.Definitions, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	synced, err := startControllers(ctx, group, options)
	if err != nil {
		return err
	}
	injector, err := newInjector(ctx, rest.CopyConfig(config))
	if err != nil {
		return err
	}
	group.Go(func() error { return injector.Start(ctx) })
	group.Go(func() error {
		waiting, cancel := context.WithTimeout(ctx, syncPatience)
		defer cancel()
		if !synced(waiting) || !injector.GetCache().WaitForCacheSync(waiting) {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was told to stop before it was ready
			}
			return fmt.Errorf("the caches are not filled after %s", syncPatience)
		}
		if options.Ready != nil {
			options.Ready()
		}
		return nil
	})
	return group.Wait()
}

// startControllers starts every controller that is linked in, and what they all read. The function it returns waits until
// that is there.
func startControllers(ctx context.Context, group *errgroup.Group, options Options) (synced func(context.Context) bool, err error) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    options.Kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: options.ClusterNamespace},
		CertificateOptions: controller.CertificateOptions{CertificateRequestMinimumBackoffDuration: leastBackoff,
			CertificateRequestMaximumBackoffDuration: mostBackoff},
	})
	if err != nil {
		return nil, fmt.Errorf("making the context of the controllers: %w", err)
	}
	known := controller.Known()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		made, err := known[name](factory)
		if err != nil {
			return nil, fmt.Errorf("making controller %s: %w", name, err)
		}
		group.Go(func() error {
			if err := made.Run(workers, ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("running controller %s: %w", name, err)
			}
			return nil
		})
	}
	shared, err := factory.Build()
	if err != nil {
		return nil, fmt.Errorf("making the informers: %w", err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return func(ctx context.Context) bool {
		for _, filled := range shared.SharedInformerFactory.WaitForCacheSync(ctx.Done()) {
			if !filled {
				return false
			}
		}
		for _, filled := range shared.KubeSharedInformerFactory.WaitForCacheSync(ctx.Done()) {
			if !filled {
				return false
			}
		}
		return true
	}, nil
}
