package cache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// asking makes a Run with one required term of affinity and one of anti-affinity.
func asking(t *testing.T, name, near, apart string) *framework.RunInfo {
	t.Helper()
	rule := func(selector string) *corev1alpha1.RunAffinity {
		s, err := metav1.ParseToLabelSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		return &corev1alpha1.RunAffinity{Required: []corev1alpha1.RunAffinityTerm{{LabelSelector: *s, TopologyKey: corev1alpha1.TopologyRuntimePod}}}
	}
	return framework.NewRunInfo(&corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)},
		Spec:       corev1alpha1.RunSpec{Runtime: "sh", Affinity: &corev1alpha1.Affinity{RunAffinity: rule(near), RunAntiAffinity: rule(apart)}},
	})
}

func labelledRun(name string, labels map[string]string) *framework.RunInfo {
	r := run(name, 1000)
	r.Labels = labels
	return r
}

func TestASnapshotForARunHoldsWhatItsTermsSelect(t *testing.T) {
	c := twoPods()
	db, web := map[string]string{"app": "db"}, map[string]string{"app": "web"}
	ask := asking(t, "r", "app=db", "app notin (db)")
	expect := func(when string, want ...framework.Neighbours) {
		t.Helper()
		if diff := cmp.Diff(want, c.SnapshotFor(ask, time.Time{}).Neighbours); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	none := framework.Neighbours{}
	expect("nobody is there", none, none)
	c.Charge(labelledRun("db1", db), "uid-a") // before anybody has asked about it, and after
	expect("one is", framework.Neighbours{Runs: 1, On: map[types.UID]int{"uid-a": 1}}, none)
	c.Charge(labelledRun("db2", db), "uid-a")
	c.Charge(labelledRun("web", web), "uid-b")
	expect("a reserved one counts", framework.Neighbours{Runs: 2, On: map[types.UID]int{"uid-a": 2}}, framework.Neighbours{Runs: 1, On: map[types.UID]int{"uid-b": 1}})
	c.Charge(labelledRun("web", db), "uid-b")
	expect("one has other labels", framework.Neighbours{Runs: 3, On: map[types.UID]int{"uid-a": 2, "uid-b": 1}}, none)
	c.Release("db1")
	c.Charge(labelledRun("db2", db), "uid-b")
	expect("one has left, one is somewhere else", framework.Neighbours{Runs: 2, On: map[types.UID]int{"uid-b": 2}}, none)
	c.Release("db2")
	c.Release("web")
	expect("all have left", none, none)
	if len(c.neighbourhoods) != 0 {
		t.Errorf("%d namespaces are left", len(c.neighbourhoods))
	}
	if s := c.SnapshotFor(run("plain", 1), time.Time{}); s != c.Snapshot(key) {
		t.Error("a Run without affinity got a snapshot of its own")
	}
}

func TestGuardsStayWithTheirRun(t *testing.T) {
	c := twoPods()
	c.Charge(asking(t, "r", "x", "app=db"), "uid-a")
	c.Charge(asking(t, "s", "x", "app=db"), "uid-a")
	before := c.Snapshot(key)
	c.Release("r")
	c.Charge(asking(t, "s", "x", "app=db"), "uid-b")
	after := c.Snapshot(key)
	guards := func(s *framework.Snapshot) map[string]int {
		out := map[string]int{}
		for _, p := range s.Pods {
			out[p.Name] = len(p.Guards)
		}
		return out
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 0}, guards(before)); diff != "" || !before.Guarded {
		t.Errorf("before, guarded %t (-want +got):\n%s", before.Guarded, diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 0, "b": 1}, guards(after)); diff != "" || !after.Guarded {
		t.Errorf("after, guarded %t (-want +got):\n%s", after.Guarded, diff)
	}
	c.Release("s")
	if c.Snapshot(key).Guarded {
		t.Error("guarded by nobody")
	}
}
