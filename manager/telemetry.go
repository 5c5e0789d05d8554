package manager

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"kruntimes.io/kruntimes/telemetry/events"
)

const (
	// reporter is who tells in events.
	reporter = "kruntimes.io/manager"
	// syncPatience is how long the readiness probe waits for the caches.
	syncPatience = 100 * time.Millisecond
)

// newRecorder makes what stores the events of all controllers.
func newRecorder(config *rest.Config) (*events.Recorder, error) {
	recorder, err := events.NewRecorder(config, reporter, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("making the recorder of events: %w", err)
	}
	return recorder, nil
}

// addProbes answers the kubelet. A manager is ready when its caches hold all that its controllers read, whether it is the
// leader or would be the next one. Controllers start their watches only as the leader, so these are started here: a
// successor need not fill its caches first.
func addProbes(ctx context.Context, mgr ctrl.Manager, kinds []client.Object) error {
	if err := startWatches(ctx, mgr.GetCache(), kinds); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness probe: %w", err)
	}
	ready := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), syncPatience)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the caches are not filled yet")
		}
		return nil
	}
	if err := mgr.AddReadyzCheck("caches", ready); err != nil {
		return fmt.Errorf("adding the readiness probe: %w", err)
	}
	return nil
}

// startWatches has the cache hold the kinds. Of Nodes the controllers read the metadata only: to ask for the kind itself would
// start a second watch beside theirs, of whole Nodes.
func startWatches(ctx context.Context, informers cache.Informers, kinds []client.Object) error {
	for _, kind := range kinds {
		if _, isNode := kind.(*corev1.Node); isNode {
			metadata := &metav1.PartialObjectMetadata{}
			metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
			kind = metadata
		}
		if _, err := informers.GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}
