//go:build chaos

// Package chaos runs many WorkflowRuns on the cluster of test/cluster while parts of it are killed at random, and proves by a
// log that the steps write themselves that nothing was executed twice, that all ended, and that nothing was left behind.
package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

const (
	replicas, capacity = 3, 8
	// patience bounds every wait for what has to come by itself once nothing is killed any more.
	patience = 5 * time.Minute
	// namespaceLimit is how long the deletion of a namespace with work in it may take.
	namespaceLimit = 2 * time.Minute
)

// number returns a number of the environment, or another one where that is not set.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is no number: %v", name, err)
	}
	return n
}

func TestEachAttemptRunsOnceWhateverIsKilled(t *testing.T) {
	total := int(number(t, "CHAOS_WORKFLOWRUNS", 200))
	limit := time.Duration(number(t, "CHAOS_MINUTES", 20)) * time.Minute
	seed := number(t, "CHAOS_SEED", rand.Uint64())
	t.Logf("CHAOS_WORKFLOWRUNS=%d CHAOS_MINUTES=%.0f CHAOS_SEED=%d", total, limit.Minutes(), seed)
	began := time.Now()
	ledger := newLedger(t)
	env := e2e.New(t)
	ledger.mount(env)
	env.Create(callee())
	env.Runtime("bash", e2e.WithReplicas(replicas), e2e.WithCapacity(strconv.Itoa(capacity)), ledger.use)

	w := &work{env: env, total: total, random: rand.New(rand.NewPCG(seed, 1))}
	h := &harm{env: env, cluster: env.Cluster(), random: rand.New(rand.NewPCG(seed, 2)), kills: map[string]int{}, inVain: map[string]error{}}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	harming, calm := context.WithCancel(ctx)
	harmed := make(chan struct{})
	go func() { h.run(harming); close(harmed) }()
	err := w.run(ctx)
	calm()
	<-harmed
	h.expectDone(t)
	if err != nil {
		if ctx.Err() == nil {
			t.Fatalf("creating WorkflowRuns: %v", err)
		}
		t.Logf("the time is over, what was created until now is judged: %v", err)
	}
	w.settle(t)
	v := newVerdict(t, env, ledger.attempts(t))
	v.ranOnce()
	v.allEnded()
	v.nothingLeft()
	v.fullCapacity()
	v.print(h.kills, time.Since(began))
	endsInTheMiddle(t, env, w)
}

// endsInTheMiddle deletes the namespace while WorkflowRuns are at all stages.
func endsInTheMiddle(t *testing.T, env *e2e.Env, w *work) {
	t.Helper()
	for i := range 20 {
		env.Create(w.workflowRun(fmt.Sprintf("last-%d", i)))
	}
	env.Eventually("some of it executes", func() string {
		var runs corev1alpha1.RunList
		if err := env.Client.List(t.Context(), &runs, client.InNamespace(env.Namespace), client.MatchingFields{corev1alpha1.FieldPhase: string(corev1alpha1.RunRunning)}); err != nil {
			return err.Error()
		}
		if len(runs.Items) >= 4 {
			return ""
		}
		return fmt.Sprintf("%d Runs execute", len(runs.Items))
	})
	namespace := &corev1.Namespace{}
	namespace.Name = env.Namespace
	began := time.Now()
	if err := env.Client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	env.Within(namespaceLimit, "the namespace is gone", func() string {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%v %+v", err, namespace.Status.Conditions)
	})
	fmt.Printf("the namespace was gone %s after its deletion\n", time.Since(began).Round(100*time.Millisecond))
}
