package workspaces

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// killAtEveryWrite does what cluster.KillAtEveryWrite says with what the manager writes of workspaces. Its other writes go on,
// so that they are not counted.
func killAtEveryWrite(t *testing.T, k cluster.Kills) {
	t.Helper()
	k.MaxWrites = 10
	k.Start = func(t *testing.T, f *cluster.Fault) func() {
		return shared.StartManager(t, func(o *manager.Options) {
			if f == nil {
				return
			}
			o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				faulty := f.Wrap(next)
				return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.Contains(r.URL.Path, "/persistentworkspaces/") {
						return faulty.RoundTrip(r)
					}
					return next.RoundTrip(r)
				})
			})
		})
	}
	cluster.KillAtEveryWrite(t, k)
}

func isGone(t *testing.T, namespace string) bool {
	t.Helper()
	err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "ws"}, &workspacesv1alpha1.PersistentWorkspace{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

// TestAManagerIsKilledAtEveryWriteOfALife takes a workspace from its creation through its time to live to its end.
func TestAManagerIsKilledAtEveryWriteOfALife(t *testing.T) {
	janitors := map[string]*janitor{}
	killAtEveryWrite(t, cluster.Kills{
		Prepare: func(t *testing.T) string {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			janitors[ns] = startJanitor(t, pod)
			shared.Create(t, newRuntime(ns, "sh"))
			shared.Create(t, newWorkspace(ns, "ws", ttl(0)))
			return ns
		},
		Done: isGone,
		Check: func(t *testing.T, ns string) {
			awaitGone(t, newWorkspace(ns, "ws"))
			janitors[ns].expect(t, "ws")
		},
	})
}

// TestAManagerIsKilledAtEveryWriteOfALoss deletes a workspace whose Pod is gone.
func TestAManagerIsKilledAtEveryWriteOfALoss(t *testing.T) {
	killAtEveryWrite(t, cluster.Kills{
		Prepare: func(t *testing.T) string {
			ns := shared.Namespace(t)
			stop := shared.StartManager(t)
			pod := bind(t, ns)
			stop()
			shared.Delete(t, pod)
			shared.RuntimePod(t, ns, "sh", "b")
			deleteWorkspace(t, ns)
			return ns
		},
		Done:  isGone,
		Check: func(t *testing.T, ns string) { awaitGone(t, newWorkspace(ns, "ws")) },
	})
}
