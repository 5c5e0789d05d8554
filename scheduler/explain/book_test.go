package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var start = time.Unix(1_000_000, 0)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// told lists who is told what, as "run: message".
func told(notes []Note) []string {
	var out []string
	for _, n := range notes {
		out = append(out, string(n.Run)+": "+n.Verdict.Message)
	}
	return out
}

func full(message string) Verdict { return Verdict{"InsufficientCapacity", message} }

func expect(t *testing.T, when string, b *Book, now time.Time, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, told(b.Due(now, 10))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestARunIsToldOnceAndNotAtOnce(t *testing.T) {
	b := New()
	b.Wait("a", "g", at(0), Verdict{})
	expect(t, "nothing is known yet", b, at(5))
	b.Conclude("g", full("1 full"), at(5))
	expect(t, "after a second", b, at(5), "a: 1 full")
	expect(t, "again", b, at(50))
	b.Wait("b", "g", at(50), Verdict{})
	expect(t, "a new one, too early", b, at(50.9))
	expect(t, "a new one", b, at(51), "b: 1 full")
}

func TestARunThatKnowsIsNotTold(t *testing.T) {
	b := New()
	b.Wait("a", "g", at(0), full("1 full"))
	b.Conclude("g", full("1 full"), at(1))
	expect(t, "it knew from before", b, at(2))
	b.Wait("a", "g", at(2), Verdict{})
	expect(t, "somebody has wiped it", b, at(3), "a: 1 full")
}

func TestNewsTravelFasterThanNumbers(t *testing.T) {
	b := New()
	b.Wait("a", "g", at(0), Verdict{})
	b.Conclude("g", full("4 Pods: 4 full"), at(1))
	expect(t, "first", b, at(1), "a: 4 Pods: 4 full")
	b.Conclude("g", full("3 Pods: 3 full"), at(2))
	expect(t, "numbers wait", b, at(10.9))
	b.Conclude("g", full("5 Pods: 5 full"), at(10.9))
	expect(t, "the latest numbers, after ten seconds", b, at(11), "a: 5 Pods: 5 full")
	b.Conclude("g", full("5 Pods: 5 not ready"), at(11.5))
	expect(t, "news wait a second", b, at(11.9))
	expect(t, "news", b, at(12), "a: 5 Pods: 5 not ready")
}

func TestNumbersThatSwingBackAreNeverTold(t *testing.T) {
	b := New()
	b.Wait("a", "g", at(0), Verdict{})
	b.Conclude("g", full("4 full"), at(1))
	expect(t, "first", b, at(1), "a: 4 full")
	b.Conclude("g", full("3 full"), at(2))
	b.Conclude("g", full("4 full"), at(3))
	expect(t, "nothing has changed in the end", b, at(60))
}

func TestTheLimitHoldsAndTheOldestComeFirst(t *testing.T) {
	b := New()
	for i := range 25 {
		b.Wait(types.UID(fmt.Sprintf("r%02d", i)), "g", at(0), Verdict{})
	}
	b.Conclude("g", full("x"), at(1))
	var got []string
	for range 3 {
		got = append(got, fmt.Sprint(len(b.Due(at(2), 10))))
	}
	if diff := cmp.Diff([]string{"10", "10", "5"}, got); diff != "" {
		t.Errorf("told per call (-want +got):\n%s", diff)
	}
	b.Wait("z", "g", at(2), Verdict{})
	b.Conclude("g", full("y"), at(3))
	first := b.Due(at(3), 1)
	if diff := cmp.Diff([]string{"r00: y"}, told(first)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
}

func TestGroupsShareTheLimit(t *testing.T) {
	b := New()
	for i := range 4 {
		b.Wait(types.UID(fmt.Sprintf("a%d", i)), "a", at(0), Verdict{})
		b.Wait(types.UID(fmt.Sprintf("b%d", i)), "b", at(0), Verdict{})
	}
	b.Conclude("a", full("A"), at(1))
	b.Conclude("b", full("B"), at(1))
	seen := map[string]int{}
	for range 4 {
		for _, n := range b.Due(at(2), 2) {
			seen[n.Verdict.Message]++
		}
	}
	if diff := cmp.Diff(map[string]int{"A": 4, "B": 4}, seen); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestForgottenAndMovedRuns(t *testing.T) {
	b := New()
	b.Wait("a", "g", at(0), Verdict{})
	b.Wait("b", "g", at(0), Verdict{})
	b.Conclude("g", full("x"), at(1))
	b.Forget("a")
	b.Forget("a")
	b.Wait("b", "h", at(1.5), Verdict{})
	b.Conclude("h", full("y"), at(1.5))
	expect(t, "only the one that moved, which has waited since 0", b, at(1.6), "b: y")
	b.Forget("b")
	if b.Len() != 0 || len(b.groups) != 0 || len(b.unsettled) != 0 {
		t.Errorf("%d waiters, %d groups, %d unsettled are left", b.Len(), len(b.groups), len(b.unsettled))
	}
	if b.behind.Len() != 0 {
		t.Errorf("%d empty groups still have a turn", b.behind.Len())
	}
	expect(t, "nobody is left", b, at(60))
}

// TestNothingIsLeftOfRunsThatNobodyWasToldAbout is the life of a scheduler that is not the leader: it never asks who is
// due.
func TestNothingIsLeftOfRunsThatNobodyWasToldAbout(t *testing.T) {
	b := New()
	for i := range 10_000 {
		run, group := types.UID(fmt.Sprint(i)), fmt.Sprint(i%100)
		b.Wait(run, group, at(0), Verdict{})
		b.Conclude(group, full("x"), at(0))
		b.Forget(run)
	}
	if b.Len() != 0 || len(b.groups) != 0 || len(b.unsettled) != 0 || b.behind.Len() != 0 {
		t.Errorf("%d waiters, %d groups, %d unsettled, %d behind are left", b.Len(), len(b.groups), len(b.unsettled), b.behind.Len())
	}
}

// TestABigGroupDoesNotHoldUpOthers has a group of which more members are stale than can ever be told, because its numbers
// change again and again.
func TestABigGroupDoesNotHoldUpOthers(t *testing.T) {
	b := New()
	for i := range 1000 {
		b.Wait(types.UID(fmt.Sprintf("a%03d", i)), "a", at(0), Verdict{})
	}
	b.Conclude("a", full("1 full"), at(1))
	expectOf := func(now float64, want string) {
		t.Helper()
		got := map[string]bool{}
		for _, n := range b.Due(at(now), 2) {
			got[string(n.Run)] = true
		}
		if !got[want] {
			t.Errorf("at %v %s is not told, but %v", now, want, got)
		}
	}
	expectOf(2, "a000")
	b.Wait("b", "b", at(2), Verdict{})
	b.Conclude("b", full("B"), at(2))
	expectOf(3, "b")
	b.Conclude("a", full("2 full"), at(12))
	b.Wait("c", "c", at(11), Verdict{})
	b.Conclude("c", full("C"), at(12))
	expectOf(12, "c")
}
