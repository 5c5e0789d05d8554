package perf

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// fakeClient holds Runs in memory.
func fakeClient() *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{corev1alpha1.GroupVersion.WithResource("runs"): "RunList"})
}

// TestAWatchThatIsLost has the API server close the watch, and refuse another: nobody may wait for what cannot be seen.
func TestAWatchThatIsLost(t *testing.T) {
	lost := errors.New("no more watching")
	loads := map[string]Load{
		"a number in flight": {Total: 5, InFlight: 2},
		"a burst":            {Total: 5, Creators: 2},
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			client := fakeClient()
			events := watch.NewFake()
			client.PrependWatchReactor("runs", clienttesting.DefaultWatchReactor(events, nil))
			target := Product(client, "ns", "sh", "r")
			target.Advance = func(context.Context, *unstructured.Unstructured) error {
				client.PrependReactor("list", "runs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, lost })
				events.Stop()
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := Measure(ctx, target, load); !errors.Is(err, lost) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMeasureSeesEveryEnd(t *testing.T) {
	client := fakeClient()
	target := Product(client, "ns", "sh", "r")
	target.Advance = func(ctx context.Context, created *unstructured.Unstructured) error {
		if err := unstructured.SetNestedField(created.Object, "Succeeded", "status", "phase"); err != nil {
			return err
		}
		_, err := client.Resource(target.Resource).Namespace("ns").Update(ctx, created, metav1.UpdateOptions{})
		return err
	}
	sample, err := Measure(t.Context(), target, Load{Total: 20, InFlight: 4})
	if err != nil || len(sample.Latencies) != 20 || sample.Quantile(0) <= 0 {
		t.Errorf("got %+v, %v", sample, err)
	}
}
