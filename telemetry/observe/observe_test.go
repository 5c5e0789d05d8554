package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// TestWatchEndsWithItsContext stops before the cache is filled, as a manager that is stopped while it starts.
func TestWatchEndsWithItsContext(t *testing.T) {
	unfilled := &informertest.FakeInformers{Error: errors.New("timeout waiting for the informer to sync")}
	if err := Watch(t.Context(), unfilled, &corev1.Pod{}, Eyes[*corev1.Pod]{}); !errors.Is(err, unfilled.Error) {
		t.Errorf("while it should watch: got error %v, want %v", err, unfilled.Error)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Watch(ended, unfilled, &corev1.Pod{}, Eyes[*corev1.Pod]{}); err != nil {
		t.Errorf("after the end: got error %v, want none", err)
	}
}

// TestWhatIsSeen tells of everything that an informer can tell of.
func TestWhatIsSeen(t *testing.T) {
	pod := func(uid, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(uid), ResourceVersion: version}}
	}
	id := func(p *corev1.Pod) string { return string(p.UID) + p.ResourceVersion }
	cases := map[string]struct {
		tell func(toolscache.ResourceEventHandler)
		want []string
	}{
		"it was there":        {func(h toolscache.ResourceEventHandler) { h.OnAdd(pod("a", "1"), true) }, []string{"first a1 true"}},
		"it was created":      {func(h toolscache.ResourceEventHandler) { h.OnAdd(pod("a", "1"), false) }, []string{"first a1 false"}},
		"it was changed":      {func(h toolscache.ResourceEventHandler) { h.OnUpdate(pod("a", "1"), pod("a", "2")) }, []string{"changed a1 a2"}},
		"it was listed again": {func(h toolscache.ResourceEventHandler) { h.OnUpdate(pod("a", "1"), pod("a", "1")) }, nil},
		"it was replaced":     {func(h toolscache.ResourceEventHandler) { h.OnUpdate(pod("a", "1"), pod("b", "2")) }, []string{"gone a1", "first b2 false"}},
		"it was deleted":      {func(h toolscache.ResourceEventHandler) { h.OnDelete(pod("a", "1")) }, []string{"gone a1"}},
		"it was deleted, unseen": {func(h toolscache.ResourceEventHandler) {
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: pod("a", "1")})
		}, []string{"gone a1"}},
		"it is of another kind":    {func(h toolscache.ResourceEventHandler) { h.OnAdd(&corev1.Node{}, false) }, nil},
		"it was, of another kind":  {func(h toolscache.ResourceEventHandler) { h.OnDelete(&corev1.Node{}) }, nil},
		"it became another's kind": {func(h toolscache.ResourceEventHandler) { h.OnUpdate(&corev1.Node{}, pod("a", "1")) }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			tc.tell(Eyes[*corev1.Pod]{
				First:   func(now *corev1.Pod, wasThere bool) { got = append(got, fmt.Sprint("first ", id(now), " ", wasThere)) },
				Changed: func(before, after *corev1.Pod) { got = append(got, "changed "+id(before)+" "+id(after)) },
				Gone:    func(last *corev1.Pod) { got = append(got, "gone "+id(last)) },
			}.handler())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("seen (-want +got):\n%s", diff)
			}
			tc.tell(Eyes[*corev1.Pod]{}.handler()) // sees nothing
		})
	}
}
