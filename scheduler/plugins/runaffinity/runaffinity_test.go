package runaffinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

func selector(t *testing.T, text string) metav1.LabelSelector {
	t.Helper()
	s, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

func TestWhoIsLeftAlone(t *testing.T) {
	guard := &framework.Selector{}
	if err := guard.UnmarshalText([]byte("app=db")); err != nil {
		t.Fatal(err)
	}
	free := &framework.Snapshot{Pods: []*framework.PodInfo{{UID: "a"}}}
	guarded := &framework.Snapshot{Guarded: true, Pods: []*framework.PodInfo{{UID: "a", Guards: []*framework.Selector{guard}}}}
	prefers := &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{Preferred: []corev1alpha1.WeightedRunAffinityTerm{{
		Weight: 1, Term: corev1alpha1.RunAffinityTerm{LabelSelector: selector(t, "app=db"), TopologyKey: corev1alpha1.TopologyRuntimePod}}}}}
	cases := map[string]struct {
		run      framework.RunInfo
		snapshot *framework.Snapshot
		want     framework.Code
	}{
		"a Run without rules":                {framework.RunInfo{Labels: map[string]string{"app": "db"}}, free, framework.Skip},
		"a Run that no guard selects":        {framework.RunInfo{Labels: map[string]string{"app": "web"}}, guarded, framework.Skip},
		"a Run that a guard selects":         {framework.RunInfo{Labels: map[string]string{"app": "db"}}, guarded, framework.Success},
		"rules without content":              {framework.RunInfo{Affinity: &corev1alpha1.Affinity{}}, free, framework.Skip},
		"a preference that no Pod can meet":  {framework.RunInfo{Affinity: prefers}, free, framework.Skip},
		"a namespace without such a Runtime": {framework.RunInfo{}, &framework.Snapshot{}, framework.Skip},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := framework.Success
			if s := New().PreFilter(&framework.Cycle{Run: &tc.run, Snapshot: tc.snapshot}); s != nil {
				got = s.Code
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestScoresAreScaled(t *testing.T) {
	affinity := &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{}, RunAntiAffinity: &corev1alpha1.RunAffinity{}}
	add := func(to *corev1alpha1.RunAffinity, weight int32) {
		to.Preferred = append(to.Preferred, corev1alpha1.WeightedRunAffinityTerm{Weight: weight,
			Term: corev1alpha1.RunAffinityTerm{LabelSelector: selector(t, "x"), TopologyKey: corev1alpha1.TopologyRuntimePod}})
	}
	add(affinity.RunAffinity, 100)
	add(affinity.RunAffinity, 20)
	add(affinity.RunAntiAffinity, 80)
	pods := []*framework.PodInfo{{UID: "both"}, {UID: "one"}, {UID: "none"}, {UID: "disliked"}}
	on := func(pods ...types.UID) framework.Neighbours {
		n := framework.Neighbours{Runs: len(pods), On: map[types.UID]int{}}
		for _, p := range pods {
			n.On[p] = 7 // the number does not count
		}
		return n
	}
	c := &framework.Cycle{Run: &framework.RunInfo{Affinity: affinity}, Snapshot: &framework.Snapshot{Pods: pods,
		Neighbours: []framework.Neighbours{on("both"), on("both", "one"), on("disliked")}}}
	if s := New().PreFilter(c); s != nil {
		t.Fatalf("pre-filter: %+v", s)
	}
	var scores []int64
	for _, pod := range pods {
		scores = append(scores, New().Score(c, pod))
	}
	if diff := cmp.Diff([]int64{120, 20, 0, -80}, scores); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	New().Normalize(c, scores)
	if diff := cmp.Diff([]int64{100, 50, 40, 0}, scores); diff != "" {
		t.Errorf("scaled (-want +got):\n%s", diff)
	}
}
