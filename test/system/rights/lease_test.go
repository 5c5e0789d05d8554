package rights

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
)

// expectOwnedLease fails unless the Lease of an account belongs to it. Of the manager's, an event tells who holds it.
func expectOwnedLease(t *testing.T, account string) {
	t.Helper()
	key := client.ObjectKey{Namespace: config.Namespace, Name: account}
	lease, owner := &coordinationv1.Lease{}, &corev1.ServiceAccount{}
	for _, object := range []client.Object{lease, owner} {
		if err := admin.Get(t.Context(), key, object); err != nil {
			t.Fatal(err)
		}
	}
	if o := lease.OwnerReferences; len(o) != 1 || o[0].Kind != "ServiceAccount" || o[0].Name != account || o[0].UID != owner.UID {
		t.Errorf("Lease %s belongs to %+v, not to the account %s of UID %s", account, o, account, owner.UID)
	}
	if account != config.ManagerServiceAccount {
		return
	}
	eventually(t, "an event to tell who leads", func() (bool, error) {
		var told eventsv1.EventList
		if err := admin.List(t.Context(), &told, client.InNamespace(config.Namespace)); err != nil {
			return false, err
		}
		for _, e := range told.Items {
			if e.Regarding.UID == lease.UID && e.Note == *lease.Spec.HolderIdentity+" became leader" {
				return true, nil
			}
		}
		return false, nil
	})
}
