package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Play calls move with every Run of a namespace that has not ended: when it was created and whenever it was changed, one Run at a time,
// until the test ends. Where move meets a newer version it is called again with that; any other error fails the test. The function that is
// returned has move called again with all of them.
func (c *Cluster) Play(tb testing.TB, namespace string, move func(context.Context, *corev1alpha1.Run) error) (again func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	runs, err := cache.New(c.Config(), cache.Options{Scheme: Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		tb.Fatalf("watching the Runs of %s: %v", namespace, err)
	}
	queue := workqueue.NewTyped[types.NamespacedName]()
	add := func(o any) {
		if run, ok := o.(*corev1alpha1.Run); ok {
			queue.Add(types.NamespacedName{Namespace: run.Namespace, Name: run.Name})
		}
	}
	informer, err := runs.GetInformer(ctx, &corev1alpha1.Run{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }})
	}
	if err != nil {
		tb.Fatalf("watching the Runs of %s: %v", namespace, err)
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := runs.Start(ctx); err != nil {
			tb.Errorf("watching the Runs of %s: %v", namespace, err)
		}
	})
	parts.Go(func() {
		if err := play(ctx, runs, queue, move); err != nil {
			tb.Errorf("playing the Runs of %s: %v", namespace, err)
		}
	})
	tb.Cleanup(func() {
		queue.ShutDown()
		cancel()
		parts.Wait()
	})
	return func() {
		var all corev1alpha1.RunList
		if err := runs.List(ctx, &all); err != nil {
			tb.Errorf("listing the Runs of %s: %v", namespace, err)
		}
		for i := range all.Items {
			add(&all.Items[i])
		}
	}
}

func play(ctx context.Context, runs cache.Cache, queue workqueue.TypedInterface[types.NamespacedName], move func(context.Context, *corev1alpha1.Run) error) error {
	for {
		name, ended := queue.Get()
		if ended {
			return nil
		}
		run := &corev1alpha1.Run{}
		err := runs.Get(ctx, name, run)
		if err == nil && !run.Status.Phase.IsTerminal() {
			err = move(ctx, run)
		}
		queue.Done(name)
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("moving Run %s: %w", name.Name, err)
		}
	}
}
