package framework

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestResourcesFromQuantities(t *testing.T) {
	cases := map[string]struct {
		list                   corev1.ResourceList
		wantRequest, wantOffer Resources
	}{
		"names are sorted": {list("runs", "1", "gpu", "2"),
			Resources{{"gpu", 2000}, {"runs", 1000}}, Resources{{"gpu", 2000}, {"runs", 1000}}},
		"less than a thousandth is rounded against the Run": {list("x", "1500u"), Resources{{"x", 2}}, Resources{{"x", 1}}},
		"suffixes count":             {list("m", "1Ki"), Resources{{"m", 1024000}}, Resources{{"m", 1024000}}},
		"more than fits is the most": {list("m", "99999P"), Resources{{"m", math.MaxInt64}}, Resources{{"m", math.MaxInt64}}},
		"nothing":                    {nil, Resources{}, Resources{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.wantRequest, RequestOf(tc.list)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOffer, CapacityOf(tc.list)); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResourcesArithmetic(t *testing.T) {
	a, b := Resources{{"gpu", 1}, {"runs", 1000}}, Resources{{"mem", 5}, {"runs", 500}}
	if diff := cmp.Diff(Resources{{"gpu", 1}, {"mem", 5}, {"runs", 1500}}, a.Plus(b)); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Resources{{"gpu", 1}, {"mem", 0}, {"runs", 500}}, a.Minus(b)); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	if got := (Resources{{"x", math.MaxInt64}}).Plus(Resources{{"x", 1}}).Of("x"); got != math.MaxInt64 {
		t.Errorf("sum overflowed to %d", got)
	}
	if got := a.Of("none"); got != 0 {
		t.Errorf("missing resource is %d, want 0", got)
	}
	if got, want := (Resources{{"a", 1250}, {"b", 4000}}).String(), "a=1.25,b=4"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestUnits(t *testing.T) {
	for milli, want := range map[int64]string{0: "0", 4000: "4", 500: "0.5", 1: "0.001", 1250: "1.25", 10010: "10.01"} {
		if got := Units(milli); got != want {
			t.Errorf("Units(%d) is %q, want %q", milli, got, want)
		}
	}
}

func TestClassTellsApartWhatAVerdictMayDependOn(t *testing.T) {
	base := func(change func(*corev1alpha1.Run)) string {
		r := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u"}, Spec: corev1alpha1.RunSpec{Runtime: "sh"}}
		if change != nil {
			change(r)
		}
		return NewRunInfo(r).Class
	}
	withLabel := func(value string) func(*corev1alpha1.Run) {
		return func(r *corev1alpha1.Run) { r.Labels = map[string]string{"x": value} }
	}
	near := func(r *corev1alpha1.Run) {
		r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{Required: []corev1alpha1.RunAffinityTerm{{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"x": "1"}}, TopologyKey: corev1alpha1.TopologyRuntimePod}}}}
	}
	nearAs := func(value string) string { return base(func(r *corev1alpha1.Run) { withLabel(value)(r); near(r) }) }
	empty := func(r *corev1alpha1.Run) {
		r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{}}
	}
	cases := map[string]struct {
		a, b string
		same bool
	}{
		"names do not":               {base(nil), base(func(r *corev1alpha1.Run) { r.Name = "s" }), true},
		"labels alone do not":        {base(withLabel("1")), base(withLabel("2")), true},
		"the default spelled out":    {base(nil), base(func(r *corev1alpha1.Run) { r.Spec.Resources = &corev1alpha1.RunResources{Requests: list("runs", "1")} }), true},
		"requests do":                {base(nil), base(func(r *corev1alpha1.Run) { r.Spec.Resources = &corev1alpha1.RunResources{Requests: list("gpu", "1")} }), false},
		"a workspace does":           {base(nil), base(func(r *corev1alpha1.Run) { r.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: "w"} }), false},
		"affinity does":              {base(nil), base(near), false},
		"an empty affinity does not": {base(nil), base(empty), true},
		"to be selected by it does":  {nearAs("1"), nearAs("2"), false},
		"other labels do not":        {nearAs("2"), nearAs("3"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if (tc.a == tc.b) != tc.same {
				t.Errorf("classes %q and %q, want same: %t", tc.a, tc.b, tc.same)
			}
		})
	}
}

func TestSnapshotCanBeWrittenAndReplayed(t *testing.T) {
	before := &Snapshot{
		Generation: 7, Guarded: true, Neighbours: []Neighbours{{Runs: 1, On: map[types.UID]int{"1": 1}}},
		Runtime: &RuntimeInfo{Namespace: "n", Name: "sh", Replicas: 2, Capacity: Resources{{"runs", 4000}}, Trouble: "quota"},
		Pods: []*PodInfo{
			{Name: "a", UID: "1", Ready: true, Capacity: Resources{{"runs", 4000}}, Used: Resources{{"runs", 1000}}, Runs: 1, Guards: []*Selector{newSelector(labels.SelectorFromSet(labels.Set{"a": "b"}))}},
			{Name: "b", UID: "2", Terminating: true, NotReadyReason: "Error"},
		},
	}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	after := &Snapshot{}
	if err := json.Unmarshal(text, after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("snapshot (-written +read):\n%s", diff)
	}
}

func TestEventsAndCodesPrint(t *testing.T) {
	if got, want := (PodAvailable | WorkspaceChanged).String(), "PodAvailable|WorkspaceChanged"; got != want {
		t.Errorf("events print %q, want %q", got, want)
	}
	if got := Events(0).String(); got != "None" {
		t.Errorf("no events print %q", got)
	}
	if got, want := Unresolvable.String()+" "+Code(99).String(), "Unresolvable Code(99)"; got != want {
		t.Errorf("codes print %q, want %q", got, want)
	}
}
