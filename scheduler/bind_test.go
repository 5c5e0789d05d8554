package scheduler

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// hasty is a clock whose timers go off at once.
type hasty struct{ clock.RealClock }

func (h hasty) NewTimer(time.Duration) clock.Timer { return h.RealClock.NewTimer(0) }

// TestEndsOfADoubtfulBind has an API server that answers no write of an assignment, and wants the end that is counted.
func TestEndsOfADoubtfulBind(t *testing.T) {
	type answer func(w *world) *corev1alpha1.Run
	asItWas := func(w *world) *corev1alpha1.Run { return w.runs["a"] }
	cases := map[string]struct {
		// meanwhile happens at every write, and stored is what reads of the Run find.
		meanwhile func(w *world, end func())
		stored    answer
		want      bindEnd
		known     bool
	}{
		"the Run has changed": {nil, func(w *world) *corev1alpha1.Run {
			return w.store("a", func(r *corev1alpha1.Run) { r.Labels = map[string]string{"touched": "yes"} })
		}, bindMoved, true},
		"the Run is gone": {nil, func(*world) *corev1alpha1.Run { return nil }, bindGone, true},
		"another Run has its name": {nil, func(w *world) *corev1alpha1.Run {
			other := w.runs["a"].DeepCopy()
			other.UID = "another"
			return other
		}, bindGone, true},
		"its Pod is gone":                  {func(w *world, _ func()) { w.engine.podGone("uid-pod") }, asItWas, bindRefused, true},
		"it is not stored for a long time": {nil, asItWas, bindRefused, true},
		"the scheduler ends":               {func(_ *world, end func()) { end() }, asItWas, bindUnknown, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("pod", "")
			w.add("a", "1")
			a := w.decide()[0]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := &binder{clock: hasty{}, engine: w.engine, client: clientOf(t, func(out http.ResponseWriter, in *http.Request) {
				if in.Method != http.MethodGet {
					if tc.meanwhile != nil {
						tc.meanwhile(w, cancel)
					}
					out.WriteHeader(http.StatusInternalServerError)
					return
				}
				answerRun(t, out, tc.stored(w))
			})}
			if end, known := b.store(ctx, a); end != tc.want || known != tc.known {
				t.Errorf("ended %s, known: %t; want %s, %t", end, known, tc.want, tc.known)
			}
		})
	}
}

// clientOf makes a client whose API server calls do for each request.
func clientOf(t *testing.T, do http.HandlerFunc) *runClient {
	t.Helper()
	server := httptest.NewServer(do)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := corev1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, err := newRunClient(&rest.Config{Host: server.URL}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// answerRun answers a read with a Run, or that there is none.
func answerRun(t *testing.T, out http.ResponseWriter, run *corev1alpha1.Run) {
	t.Helper()
	if run == nil {
		out.WriteHeader(http.StatusNotFound)
		return
	}
	whole := run.DeepCopy()
	whole.SetGroupVersionKind(corev1alpha1.GroupVersion.WithKind("Run"))
	out.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(out).Encode(whole); err != nil {
		t.Error(err)
	}
}
