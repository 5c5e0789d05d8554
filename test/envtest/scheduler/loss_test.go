package scheduler

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
)

// The ways in which a write can go wrong.
var faults = map[string]func(r *http.Request, send http.RoundTripper) (*http.Response, error){
	"the request is lost": func(*http.Request, http.RoundTripper) (*http.Response, error) {
		return nil, errCut
	},
	"the answer is lost": func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		response, err := send.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		response.Body.Close()
		return nil, errCut
	},
}

const (
	lossRuns     = 12
	lossPods     = 2
	lossCapacity = 4
	lossPlaces   = lossPods * lossCapacity
)

// lossScene makes more Runs than there are places, and a witness of where they go.
func lossScene(t *testing.T) (namespace string, w *witness) {
	t.Helper()
	ns := shared.Namespace(t)
	w = observe(t, ns, nil)
	runtimeOf(t, ns, "sh", lossPods, fmt.Sprint(lossCapacity))
	for i := range lossPods {
		shared.RuntimePod(t, ns, "sh", fmt.Sprintf("pod-%d", i))
	}
	createRuns(t, ns, "sh", lossRuns)
	return ns, w
}

// TestKilledBetweenAnyTwoWrites kills a scheduler at its n-th write, for every n, and lets a fresh one carry on: places
// are all taken, none twice, and no Run is bound twice.
func TestKilledBetweenAnyTwoWrites(t *testing.T) {
	for name, fault := range faults {
		for n := int64(1); n <= lossPlaces; n++ {
			t.Run(fmt.Sprintf("%s at write %d", name, n), func(t *testing.T) {
				_, w := lossScene(t)
				killed := make(chan struct{})
				cfg := onPatch(identity(t), func(i int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
					switch {
					case i < n:
						return send.RoundTrip(r)
					case i == n:
						defer close(killed)
						return fault(r, send)
					}
					return nil, errCut // a dead process writes nothing
				})
				first := start(t, scheduler.Options{Config: cfg})
				<-killed
				first.end(t)
				start(t, scheduler.Options{Config: identity(t)})
				w.await(t, corev1alpha1.RunScheduled, lossPlaces)
				w.check(t, lossCapacity)
			})
		}
	}
}

// TestAWriteThatGoesWrong leaves the scheduler alive: it finds out what was stored, and carries on.
func TestAWriteThatGoesWrong(t *testing.T) {
	faults := maps.Clone(faults)
	var late sync.WaitGroup
	// Only a live scheduler can know of a request that is still under way: it sends the same again.
	faults["the request arrives when it has been given up"] = func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		delayed := r.Clone(context.WithoutCancel(r.Context()))
		delayed.Body = body
		late.Go(func() {
			timer := time.NewTimer(200 * time.Millisecond)
			defer timer.Stop()
			<-timer.C
			if response, err := send.RoundTrip(delayed); err == nil {
				response.Body.Close()
			}
		})
		return nil, errCut
	}
	t.Cleanup(late.Wait)
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			ns, w := lossScene(t)
			cfg := onPatch(identity(t), func(i int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
				if i%2 == 1 {
					return fault(r, send)
				}
				return send.RoundTrip(r)
			})
			start(t, scheduler.Options{Config: cfg})
			w.await(t, corev1alpha1.RunScheduled, lossPlaces)
			w.check(t, lossCapacity)
			// The places can be used again: nothing is booked for a Run that is not there.
			deleteScheduled(t, ns)
			w.await(t, corev1alpha1.RunPending, 0)
			w.await(t, corev1alpha1.RunScheduled, lossRuns-lossPlaces)
			w.check(t, lossCapacity)
		})
	}
}

// TestEveryAnswerIsRefusedForAWhile has the API server overloaded: nothing is stored, and all is placed afterwards.
func TestEveryAnswerIsRefusedForAWhile(t *testing.T) {
	_, w := lossScene(t)
	cfg := onPatch(identity(t), func(i int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
		if i <= 2*lossPlaces {
			return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Request: r}, nil
		}
		return send.RoundTrip(r)
	})
	start(t, scheduler.Options{Config: cfg})
	w.await(t, corev1alpha1.RunScheduled, lossPlaces)
	w.check(t, lossCapacity)
}

// TestARunThatChangesUnderTheBind makes every first bind of a Run a conflict.
func TestARunThatChangesUnderTheBind(t *testing.T) {
	ns, w := lossScene(t)
	cfg := onPatch(identity(t), func(i int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
		if i <= lossPlaces {
			run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: runIn(r)}}
			label := fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"}}}`, i)
			if err := shared.Admin().Patch(r.Context(), run, client.RawPatch("application/merge-patch+json", []byte(label))); err != nil {
				t.Errorf("touching Run %s: %v", run.Name, err)
			}
		}
		return send.RoundTrip(r)
	})
	start(t, scheduler.Options{Config: cfg})
	w.await(t, corev1alpha1.RunScheduled, lossPlaces)
	w.check(t, lossCapacity)
}

// TestARunThatIsDeletedUnderTheBind frees its place again.
func TestARunThatIsDeletedUnderTheBind(t *testing.T) {
	ns, w := lossScene(t)
	cfg := onPatch(identity(t), func(i int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
		if i <= lossRuns-lossPlaces {
			run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: runIn(r)}}
			if err := shared.Admin().Delete(r.Context(), run); err != nil {
				t.Errorf("deleting Run %s: %v", run.Name, err)
			}
		}
		return send.RoundTrip(r)
	})
	start(t, scheduler.Options{Config: cfg})
	w.await(t, corev1alpha1.RunScheduled, lossPlaces)
	w.await(t, corev1alpha1.RunPending, 0)
	w.check(t, lossCapacity)
}

func deleteScheduled(t *testing.T, namespace string) {
	t.Helper()
	list := &corev1alpha1.RunList{}
	if err := shared.Admin().List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if isScheduled(&list.Items[i]) {
			shared.Delete(t, &list.Items[i])
		}
	}
}

// runIn finds the name of the Run in the path of a request to its status: …/runs/<name>/status.
func runIn(r *http.Request) string { return path.Base(path.Dir(r.URL.Path)) }
