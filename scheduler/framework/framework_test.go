package framework

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// rule is a plugin whose answers are given by the test.
type rule struct {
	name      string
	preFilter func(*Cycle) *Status
	filter    func(*PodInfo) *Status
	events    Events
}

func (r *rule) Name() string             { return r.name }
func (r *rule) EventsToRegister() Events { return r.events }

func (r *rule) PreFilter(c *Cycle) *Status {
	if r.preFilter == nil {
		return nil
	}
	return r.preFilter(c)
}

func (r *rule) Filter(_ *Cycle, pod *PodInfo) *Status {
	if r.filter == nil {
		return nil
	}
	return r.filter(pod)
}

// rank is a plugin that scores Pods by name.
type rank struct {
	name   string
	scores map[string]int64
}

func (r *rank) Name() string                       { return r.name }
func (r *rank) Score(_ *Cycle, pod *PodInfo) int64 { return r.scores[pod.Name] }
func (r *rank) Normalize(_ *Cycle, scores []int64) { Scaled(scores) }

func pods(names ...string) *Snapshot {
	s := &Snapshot{Runtime: &RuntimeInfo{Name: "sh"}}
	for _, n := range names {
		s.Pods = append(s.Pods, &PodInfo{Name: n, UID: types.UID("uid-" + n), Ready: true})
	}
	return s
}

func rejects(code Code, reason, text string, names ...string) func(*PodInfo) *Status {
	return func(pod *PodInfo) *Status {
		for _, n := range names {
			if n == pod.Name {
				return Reject(code, reason, text)
			}
		}
		return nil
	}
}

func TestSchedule(t *testing.T) {
	const unready, short = corev1alpha1.ReasonNoReadyPods, corev1alpha1.ReasonInsufficientCapacity
	type outcome struct {
		Pod, Reason, Message string
		WakeOn               Events
	}
	cases := map[string]struct {
		profile  []Enabled
		snapshot *Snapshot
		want     outcome
	}{
		"the first name wins when nothing scores": {
			snapshot: pods("a", "b"), want: outcome{Pod: "a"},
		},
		"the best score wins": {
			profile:  []Enabled{{Plugin: &rank{"r", map[string]int64{"a": 1, "b": 3, "c": 2}}, Weight: 1}},
			snapshot: pods("a", "b", "c"), want: outcome{Pod: "b"},
		},
		"equal scores leave it to the name": {
			profile:  []Enabled{{Plugin: &rank{"r", map[string]int64{"a": 1, "b": 3, "c": 3}}, Weight: 1}},
			snapshot: pods("a", "b", "c"), want: outcome{Pod: "b"},
		},
		"weights decide between plugins that disagree": {
			profile: []Enabled{
				{Plugin: &rank{"r", map[string]int64{"a": 1}}, Weight: 2},
				{Plugin: &rank{"s", map[string]int64{"b": 1000}}, Weight: 3},
			},
			snapshot: pods("a", "b"), want: outcome{Pod: "b"},
		},
		"a rejected Pod is not taken, however good its score": {
			profile: []Enabled{
				{Plugin: &rule{name: "f", filter: rejects(Unschedulable, short, "full", "a")}},
				{Plugin: &rank{"r", map[string]int64{"a": 5}}, Weight: 1},
			},
			snapshot: pods("a", "b"), want: outcome{Pod: "b"},
		},
		"a whole rejection carries its own words and events": {
			profile: []Enabled{{Plugin: &rule{name: "p", events: RuntimeChanged,
				preFilter: func(*Cycle) *Status { return Reject(Unschedulable, "NoPods", "none at all") }}}},
			snapshot: pods("a"), want: outcome{Reason: "NoPods", Message: "none at all", WakeOn: RuntimeChanged},
		},
		"what no Pod can help is not woken by Pods": {
			profile: []Enabled{{Plugin: &rule{name: "p", events: ^Events(0),
				preFilter: func(*Cycle) *Status { return Reject(Unresolvable, "ExceedsCapacity", "too large") }}}},
			snapshot: pods("a"), want: outcome{Reason: "ExceedsCapacity", Message: "too large", WakeOn: ^podEvents},
		},
		"a plugin that skips is not asked about Pods": {
			profile: []Enabled{{Plugin: &rule{name: "p", preFilter: func(*Cycle) *Status { return &Status{Code: Skip} },
				filter: rejects(Unschedulable, short, "full", "a")}}},
			snapshot: pods("a"), want: outcome{Pod: "a"},
		},
		"Pods that take nothing do not hide that the others are full": {
			profile: []Enabled{
				{Plugin: &rule{name: "f", events: PodAvailable, filter: rejects(Unavailable, unready, "not ready: ImagePullBackOff", "a")}},
				{Plugin: &rule{name: "g", events: CapacityFreed, filter: rejects(Unschedulable, short, "full (runs 4/4)", "b", "c", "d")}},
			},
			snapshot: pods("a", "b", "c", "d"),
			want: outcome{Reason: short, WakeOn: PodAvailable | CapacityFreed,
				Message: "4 Pods: 3 full (runs 4/4), 1 not ready: ImagePullBackOff"},
		},
		"Pods that take nothing are the reason when there are no others": {
			profile:  []Enabled{{Plugin: &rule{name: "f", filter: rejects(Unavailable, unready, "terminating", "a", "b")}}},
			snapshot: pods("a", "b"), want: outcome{Reason: unready, Message: "2 Pods: 2 terminating"},
		},
		"reasons that disagree are summed up": {
			profile: []Enabled{
				{Plugin: &rule{name: "f", filter: rejects(Unschedulable, "Affinity", "apart", "b")}},
				{Plugin: &rule{name: "g", filter: rejects(Unschedulable, short, "full", "a", "b")}},
			},
			snapshot: pods("a", "b"),
			want:     outcome{Reason: corev1alpha1.ReasonUnschedulable, Message: "2 Pods: 1 apart, 1 full"},
		},
		"no Pod and nobody who minds is still a reason": {
			snapshot: pods(), want: outcome{Reason: corev1alpha1.ReasonNoPods, Message: "0 Pods"},
		},
		"one Pod is spelled as one": {
			profile:  []Enabled{{Plugin: &rule{name: "f", filter: rejects(Unschedulable, short, "full", "a")}}},
			snapshot: pods("a"), want: outcome{Reason: short, Message: "1 Pod: 1 full"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := New(tc.profile)
			if err != nil {
				t.Fatal(err)
			}
			var got outcome
			r := f.Schedule(tc.snapshot, &RunInfo{Name: "run"})
			if r.Pod != nil {
				got.Pod = r.Pod.Name
			}
			if d := r.Diagnosis; d != nil {
				got.Reason, got.Message, got.WakeOn = d.Reason, d.Message(), d.WakeOn
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScheduleStopsAtAPluginThatFails(t *testing.T) {
	outage := errors.New("outage")
	f, err := New([]Enabled{{Plugin: &rule{name: "f", filter: func(*PodInfo) *Status { return Failed(outage) }}}})
	if err != nil {
		t.Fatal(err)
	}
	r := f.Schedule(pods("a", "b"), &RunInfo{})
	if r.Diagnosis == nil || !errors.Is(r.Diagnosis.Err, outage) || r.Diagnosis.Message() != "outage" {
		t.Errorf("diagnosis %+v, want the error of the plugin", r.Diagnosis)
	}
}

func TestMessageIsBoundedAndWholeGroupsOnly(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("p%03d", i))
	}
	f, err := New([]Enabled{{Plugin: &rule{name: "f", filter: func(p *PodInfo) *Status {
		return Reject(Unavailable, "NoReadyPods", "not ready: Because"+p.Name)
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := f.Schedule(pods(names...), &RunInfo{}).Diagnosis.Message()
	const tail = ", 1 not ready: Becausep017, 182 others"
	if len(got) > MaxMessage || !strings.HasPrefix(got, "200 Pods: 1 not ready: Becausep000, ") || !strings.HasSuffix(got, " others") {
		t.Errorf("message of %d bytes: %s", len(got), got)
	}
	if shown := strings.Count(got, "not ready"); !strings.HasSuffix(got, fmt.Sprintf(", %d others", 200-shown)) {
		t.Errorf("%d shown, yet the message ends %q (like %q)", shown, got[len(got)-40:], tail)
	}
}

func TestMessageOfOneLongVerdictIsCutAtACharacter(t *testing.T) {
	d := &Diagnosis{whole: Reject(Unresolvable, "R", strings.Repeat("ü", 600))}
	got := d.Message()
	if len(got) > MaxMessage || got != strings.Repeat("ü", 254)+"…" {
		t.Errorf("message of %d bytes: %q", len(got), got)
	}
}

// book is a plugin that counts what it has reserved.
type book struct {
	rule
	reserved map[string]int
	refuse   bool
}

func (b *book) Reserve(_ *Cycle, pod *PodInfo) *Status {
	if b.refuse {
		return Reject(Unschedulable, "Taken", "taken")
	}
	b.reserved[pod.Name] = 1
	return nil
}

func (b *book) Unreserve(_ *Cycle, pod *PodInfo) { delete(b.reserved, pod.Name) }

func TestMessageSaysWhyPodsAreMissing(t *testing.T) {
	f, err := New([]Enabled{{Plugin: &rule{name: "f", filter: func(p *PodInfo) *Status {
		return Reject(Unschedulable, "InsufficientCapacity", "full, "+strings.Repeat(p.Name, 200))
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		replicas    int32
		pods        []string
		trouble     string
		want        string
		wantLongest bool
	}{
		"all are there":            {2, []string{"", ""}, "quota", "2 Pods: 2 full, ", false},
		"no trouble is known":      {3, []string{"", ""}, "", "2 Pods: 2 full, ", false},
		"two cannot be made":       {3, []string{""}, "PodsRefused: quota", "1 Pod: 1 full, ; 2 more cannot be made: PodsRefused: quota", false},
		"both words are long":      {9, []string{"a", "b", "c"}, strings.Repeat("q", 200), "; 6 more cannot be made: " + strings.Repeat("q", 200), true},
		"a trouble of its own":     {2, []string{""}, strings.Repeat("q", 900), "1 Pod: 1 full, ; 1 more cannot be made: " + strings.Repeat("q", 253) + "…", false},
		"more Pods than asked for": {0, []string{""}, "quota", "1 Pod: 1 full, ", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			snapshot := pods(tc.pods...)
			snapshot.Runtime = &RuntimeInfo{Replicas: tc.replicas, Trouble: tc.trouble}
			got := f.Schedule(snapshot, &RunInfo{}).Diagnosis.Message()
			if tc.wantLongest {
				if len(got) > MaxMessage || !strings.HasSuffix(got, tc.want) || !strings.Contains(got, " others") {
					t.Errorf("%d bytes: %q", len(got), got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReserveUndoesEverythingWhenOnePluginRefuses(t *testing.T) {
	first := &book{rule: rule{name: "first"}, reserved: map[string]int{}}
	second := &book{rule: rule{name: "second", events: CapacityFreed}, reserved: map[string]int{}, refuse: true}
	f, err := New([]Enabled{{Plugin: first}, {Plugin: second}})
	if err != nil {
		t.Fatal(err)
	}
	r := f.Schedule(pods("a"), &RunInfo{})
	d := f.Reserve(r.Cycle, r.Pod)
	if d == nil || d.Reason != "Taken" || d.WakeOn != CapacityFreed || len(first.reserved) != 0 {
		t.Errorf("diagnosis %+v, left reserved %v; want the second's refusal and nothing reserved", d, first.reserved)
	}
	second.refuse = false
	if d := f.Reserve(r.Cycle, r.Pod); d != nil || len(first.reserved) != 1 || len(second.reserved) != 1 {
		t.Errorf("diagnosis %+v, reserved %v and %v; want both", d, first.reserved, second.reserved)
	}
	f.Unreserve(r.Cycle, r.Pod)
	f.Unreserve(r.Cycle, r.Pod)
	if len(first.reserved)+len(second.reserved) != 0 {
		t.Error("Unreserve left something reserved")
	}
}

// mute is a plugin that rejects and does not say what helps.
type mute struct{}

func (mute) Name() string                    { return "mute" }
func (mute) Filter(*Cycle, *PodInfo) *Status { return nil }

func TestNewReportsEverythingThatIsWrong(t *testing.T) {
	_, err := New([]Enabled{
		{Plugin: &rule{name: "twice"}}, {Plugin: &rule{name: "twice"}}, {Plugin: &rank{name: "weightless"}}, {Plugin: mute{}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := "plugin twice is listed twice\n" +
		"plugin weightless scores and needs a weight above 0, not 0\n" +
		"plugin mute may reject and must tell which events help"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestScaled(t *testing.T) {
	cases := map[string]struct{ scores, want []int64 }{
		"the smallest and the largest get the ends": {[]int64{10, 20, 15}, []int64{0, 100, 50}},
		"equal ones get the maximum":                {[]int64{7, 7}, []int64{100, 100}},
		"negative ones are fine":                    {[]int64{-10, 0}, []int64{0, 100}},
		"the widest span does not overflow":         {[]int64{-1 << 63, 1<<63 - 1}, []int64{0, 100}},
		"none":                                      {nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			Scaled(tc.scores)
			if diff := cmp.Diff(tc.want, tc.scores); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeptStateBelongsToOneCycle(t *testing.T) {
	a, b := &Cycle{}, &Cycle{}
	a.Keep("k", 1)
	if a.Kept("k") != 1 || b.Kept("k") != nil {
		t.Errorf("kept %v and %v, want 1 and nothing", a.Kept("k"), b.Kept("k"))
	}
}
