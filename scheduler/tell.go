package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/telemetry/events"
)

const (
	// tellInterval is how often waiting Runs are told why they wait.
	tellInterval = 100 * time.Millisecond
	// tellIdle and tellBusy are how many are told each time, while nothing is bound and while something is.
	tellIdle, tellBusy = 20, 2
	// tellPause is how long nobody is told after a write that failed.
	tellPause = time.Second
)

// teller writes to waiting Runs why they wait. Its writes are few and never on the way of a bind.
type teller struct {
	client *runClient
	clock  clock.WithTicker
	engine *engine
	// recorder tells people what the conditions say. Nil: nobody is told.
	recorder *events.Recorder
	// busy tells whether Runs are being bound.
	busy func() bool
}

// run tells until ctx ends.
func (t *teller) run(ctx context.Context) {
	ticker := t.clock.NewTicker(tellInterval)
	defer ticker.Stop()
	pausedUntil := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		now := t.clock.Now()
		if now.Before(pausedUntil) || t.engine.waitingRuns() == 0 {
			continue
		}
		limit := tellIdle
		if t.busy() {
			limit = tellBusy
		}
		if !t.tell(ctx, t.engine.notices(limit)) {
			pausedUntil = now.Add(tellPause)
		}
	}
}

// tell writes the notices at the same time, and returns whether every write succeeded.
func (t *teller) tell(ctx context.Context, notices []notice) bool {
	log := logr.FromContextOrDiscard(ctx)
	errs := make([]error, len(notices))
	var wg sync.WaitGroup
	for i, n := range notices {
		wg.Go(func() { errs[i] = t.tellOne(ctx, n) })
	}
	wg.Wait()
	ok := true
	for i, err := range errs {
		if err != nil {
			// Most often the Run has changed meanwhile; the informer then brings it back.
			log.V(1).Info("Could not tell a Run why it waits", "Run", klog.KObj(notices[i].run), "reason", err.Error())
			t.engine.uninformed(notices[i])
			ok = false
		}
	}
	return ok
}

func (t *teller) tellOne(ctx context.Context, n notice) error {
	after := n.run.DeepCopy()
	after.Status.ObservedGeneration = n.run.Generation
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse, Reason: n.verdict.Reason,
		Message: n.verdict.Message, ObservedGeneration: n.run.Generation, LastTransitionTime: metav1.NewTime(t.clock.Now()),
	})
	patch, err := statuspatch.ForRun(corev1alpha1.WriterScheduler, n.run, after)
	if err != nil {
		return fmt.Errorf("saying why Run %s/%s waits: %w", n.run.Namespace, n.run.Name, err)
	}
	if patch == nil {
		return nil
	}
	version, err := t.client.patchStatus(ctx, types.NamespacedName{Namespace: n.run.Namespace, Name: n.run.Name}, patch)
	if err != nil {
		return fmt.Errorf("saying why Run %s/%s waits: %w", n.run.Namespace, n.run.Name, err)
	}
	after.ResourceVersion = version
	t.engine.informed(n, after)
	t.recorder.Publish(waitEvents(n)...)
	return nil
}
