package workspaces

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const hour = time.Hour

func TestCleanupRule1ActiveWhileARunIsNotTerminal(t *testing.T) {
	expect(t, cases{
		"in use for longer than the time to live": {bound().ttl(hour).inUse(), onPod(nil)},
		"in use, and there is no time to live":    {bound().ttl(0).inUse(), onPod(nil)},
		"in use again before the use was noted":   {bound().ttl(hour).usedUntil(now.Add(-time.Second)).inUse(), onPod(nil)},
		"in use since it was lost":                {bound().ttl(hour).gone().next().at(now.Add(9 * hour)).inUse(), lostOutcome(nil)},
	})
}

func TestCleanupRule1LastUsedTimeOncePerIdlePeriod(t *testing.T) {
	noted := bound().usedUntil(now.Add(-time.Minute)).next()
	expect(t, cases{
		"the last Run has just ended: another step may follow": {
			bound().usedUntil(now.Add(-time.Second)), onPod(func(o *outcome) { o.Recheck = 2 * time.Second })},
		"the last Run ended a while ago": {bound().usedUntil(now.Add(-3 * time.Second)), onPod(func(o *outcome) { o.LastUsed = "11:59:57" })},
		"that is written already":        {noted, onPod(func(o *outcome) { o.LastUsed = "11:59:00" })},
		"a use after that":               {noted2(now.Add(-10 * time.Second)), onPod(func(o *outcome) { o.LastUsed = "11:59:50" })},
		"what an earlier workspace of that name was used for does not count": {bound().usedUntil(createdAt.Add(-time.Minute)), onPod(nil)},
		"the clock of the node is a little ahead": {
			bound().usedUntil(now.Add(20 * time.Second)), onPod(func(o *outcome) { o.Recheck = 23 * time.Second })},
		"a fraction of a second is rounded up": {
			bound().usedUntil(now.Add(-hour).Add(time.Microsecond)), onPod(func(o *outcome) { o.LastUsed = "11:00:01" })},
		"what was rounded up is not written again": {
			bound().usedUntil(now.Add(-hour).Add(time.Microsecond)).next(), onPod(func(o *outcome) { o.LastUsed = "11:00:01" })},
		"the clock of the node is far ahead": {bound().usedUntil(now.Add(hour)), onPod(func(o *outcome) { o.LastUsed = "13:00:00" })},
	})
	if d := calculate(&noted.observation); !cmp.Equal(d.status, noted.workspace.Status) {
		t.Errorf("written again: %s", cmp.Diff(noted.workspace.Status, d.status))
	}
}

// noted2 has one use written down, and then another one.
func noted2(second time.Time) *world {
	return bound().usedUntil(now.Add(-time.Minute)).next().usedUntil(second)
}

func TestCleanupRule1UnusedSinceItWasBound(t *testing.T) {
	released := onPod(func(o *outcome) { o.Phase, o.Available, o.Action = "Released", "False Released", actionRelease })
	expect(t, cases{
		"bound two hours ago, kept for three":                 {bound().ttl(3 * hour), onPod(func(o *outcome) { o.Recheck = hour })},
		"bound two hours ago, kept for two":                   {bound().ttl(2 * hour), released},
		"just bound, no time to live":                         {bound().ttl(0).at(boundAt.Add(time.Second)), onPod(func(o *outcome) { o.Recheck = 2 * time.Second })},
		"just bound, and no time to live, some moments later": {bound().ttl(0).at(boundAt.Add(3 * time.Second)), released},
		"a Run was cancelled before it was bound": {bound().ttl(3 * hour).usedUntil(boundAt.Add(-time.Minute)),
			onPod(func(o *outcome) { o.LastUsed, o.Recheck = "09:59:00", hour })},
	})
}

func TestCleanupRule2DeleteAfterTTL(t *testing.T) {
	used := func(ago time.Duration) *world { return bound().usedUntil(now.Add(-ago)) }
	released := func(last string) outcome {
		return onPod(func(o *outcome) {
			o.Phase, o.Available, o.Action, o.LastUsed = "Released", "False Released", actionRelease, last
		})
	}
	withPolicy := func(w *world, policy workspacesv1alpha1.CleanupPolicy) *world {
		w.workspace.Spec.CleanupPolicy = policy
		return w
	}
	withoutTTL := func(w *world) *world {
		w.workspace.Spec.TTLSecondsAfterUnused = nil
		return w
	}
	expect(t, cases{
		"the time has not elapsed":     {used(time.Minute).ttl(2 * time.Minute), onPod(func(o *outcome) { o.LastUsed, o.Recheck = "11:59:00", time.Minute })},
		"the time has elapsed":         {used(time.Minute).ttl(time.Minute), released("11:59:00")},
		"the use was noted before":     {used(time.Minute).next().ttl(time.Minute), released("11:59:00")},
		"ten years":                    {used(time.Minute).ttl(315360000 * time.Second), onPod(func(o *outcome) { o.LastUsed, o.Recheck = "11:59:00", 315360000*time.Second-time.Minute })},
		"no time is set":               {withoutTTL(used(time.Minute).ttl(0)), onPod(func(o *outcome) { o.LastUsed = "11:59:00" })},
		"Retain, though a time is set": {withPolicy(used(time.Minute).ttl(0), workspacesv1alpha1.CleanupRetain), onPod(func(o *outcome) { o.LastUsed = "11:59:00" })},
		"the Pod is not ready":         {used(time.Minute).ttl(time.Minute).change(notReady), released("11:59:00")},
		"a lost one, its time since the loss not elapsed": {
			used(hour).ttl(hour).gone().next().at(now.Add(time.Minute)), lostOutcome(func(o *outcome) { o.LastUsed, o.Recheck = "11:00:00", 59*time.Minute })},
		"a lost one, its time elapsed": {
			used(hour).ttl(hour).gone().next().at(now.Add(hour)), lostOutcome(func(o *outcome) { o.LastUsed, o.Action = "11:00:00", actionExpire })},
		"a lost one that is retained": {used(hour).gone().next().at(now.Add(hour)), lostOutcome(func(o *outcome) { o.LastUsed = "11:00:00" })},
	})
}

func TestCleanupRule3ReleasedBeforeDeletion(t *testing.T) {
	released := func(a action) outcome {
		return onPod(func(o *outcome) { o.Phase, o.Available, o.Action = "Released", "False Released", a })
	}
	waits := released(actionNone)
	waits.Recheck = time.Minute
	retained := bound().ttl(hour).next()
	retained.workspace.Spec.CleanupPolicy = workspacesv1alpha1.CleanupRetain
	expect(t, cases{
		"its time has elapsed: Released comes first":           {bound().ttl(hour), released(actionRelease)},
		"Released: deletion is asked for":                      {bound().ttl(hour).next(), released(actionDelete)},
		"Released, and in use since: there is no way back":     {bound().ttl(hour).next().inUse(), released(actionDelete)},
		"Released, and retained since: there is no way back":   {retained, released(actionDelete)},
		"deleted after that: the finalizer stays for runtimed": {bound().ttl(hour).next().deleted(), waits},
		"deleted by somebody":                                  {bound().deleted(), waits},
		"deleted by somebody, though Retain":                   {bound().deleted(), waits},
		"deleted by somebody while it is in use":               {bound().inUse().deleted(), released(actionNone)},
		"deleted while the Pod is not ready: it waits":         {bound().change(notReady).deleted(), waits},
		"deleted while the Pod is being deleted: it waits":     {bound().change(terminating).deleted(), waits},
	})
}

// TestCleanupRule4OnlyRuntimedRemovesTheFinalizer looks at a workspace that is Released, with its Pod there.
func TestCleanupRule4OnlyRuntimedRemovesTheFinalizer(t *testing.T) {
	w := bound().deleted().next()
	for _, later := range []time.Duration{0, time.Second, time.Minute - 1, time.Minute, hour, 1000 * hour} {
		want := onPod(func(o *outcome) { o.Phase, o.Available = "Released", "False Released" })
		if want.Recheck = time.Minute - later; want.Recheck <= 0 {
			want.Recheck, want.Available = 0, "False CleanupStuck"
		}
		if diff := cmp.Diff(want, outcomeOf(calculate(&w.at(now.Add(later)).observation))); diff != "" {
			t.Errorf("%s later (-want +got):\n%s", later, diff)
		}
	}
}

// TestACleanupThatIsStuck looks at a workspace whose deletion was asked for a while ago.
func TestACleanupThatIsStuck(t *testing.T) {
	outcomeWith := func(reason string, recheck time.Duration) outcome {
		return onPod(func(o *outcome) { o.Phase, o.Available, o.Recheck = "Released", "False "+reason, recheck })
	}
	waits := func() *world { return bound().deleted().next().at(now.Add(hour)) }
	free := waits()
	free.workspace.Finalizers = []string{"example.com/other"}
	expect(t, cases{
		"nobody uses it":                        {waits(), outcomeWith("CleanupStuck", 0)},
		"nobody uses it, looked at again":       {waits().next(), outcomeWith("CleanupStuck", 0)},
		"the Pod is not ready":                  {waits().change(notReady), outcomeWith("CleanupStuck", 0)},
		"a Run uses it":                         {waits().inUse(), outcomeWith("Released", 0)},
		"a Run has just ended":                  {waits().usedUntil(now.Add(hour - time.Second)), outcomeWith("Released", 59*time.Second)},
		"a Run has ended by a clock far ahead":  {waits().usedUntil(now.Add(9 * hour)), outcomeWith("Released", time.Minute)},
		"a Run ended a minute ago":              {waits().usedUntil(now.Add(hour - time.Minute)), outcomeWith("CleanupStuck", 0)},
		"its finalizer is gone, another is not": {free, outcomeWith("Released", 0)},
		"the Pod is gone after all":             {waits().next().gone(), lostOutcome(nil)},
	})
	for world, want := range map[*world]string{
		waits():                  "its directory could not be removed yet: see the log of container runtimed of Pod a",
		waits().change(notReady): "its directory could not be removed yet: see the log of container runtimed of Pod a, which is not ready",
	} {
		stuck := world.next().workspace
		if got := stuckEvent(stuck).Note; got != want || !isStuck(stuck) {
			t.Errorf("stuck %t, the event says %q, want %q", isStuck(stuck), got, want)
		}
	}
}

func TestCleanupRule5LostUnblocksTheFinalizer(t *testing.T) {
	lets := lostOutcome(func(o *outcome) { o.Action = actionLetGo })
	others := bound().gone().next().deleted()
	others.workspace.Finalizers = []string{"example.com/other"}
	bare := pending().runtime().ready("a").deleted()
	bare.workspace.Status.Conditions = nil
	hold := func(w *world) *world { w.workspace.Finalizers = []string{workspacesv1alpha1.Finalizer}; return w }
	expect(t, cases{
		"the Pod is gone while it is Released: Lost comes first": {bound().deleted().next().gone(), lostOutcome(nil)},
		"the Pod is gone before it was Released":                 {bound().gone().deleted(), lostOutcome(nil)},
		"Lost, then deleted":                                     {bound().gone().next().deleted(), lets},
		"Released, then Lost":                                    {bound().deleted().next().gone().next(), lets},
		"Lost, and held by somebody else only":                   {others, lostOutcome(nil)},
		"never bound":                                            {hold(bare), outcome{Phase: "Pending", Action: actionLetGo}},
		"never bound, and nothing holds it":                      {pending().deleted(), outcome{Phase: "Pending"}},
	})
}

// TestTheFinalizerIsPutBack looks at what somebody with all rights may have done.
func TestTheFinalizerIsPutBack(t *testing.T) {
	w := bound()
	w.workspace.Finalizers = nil
	expect(t, cases{"the finalizer of a Bound workspace is missing": {w, onPod(func(o *outcome) { o.Action = actionHold })}})
}

// TestNothingIsWrittenWhileNothingHappens looks at each resting state again, much later.
func TestNothingIsWrittenWhileNothingHappens(t *testing.T) {
	for name, w := range map[string]*world{
		"waiting for a Runtime": pending().next(), "waiting for Pods": pending().runtime().next(), "bound": bound(),
		"bound to a Pod that is not ready": bound().change(notReady).next(), "bound and in use": bound().inUse(),
		"bound and idle": bound().usedUntil(now.Add(-hour)).next(), "lost": bound().gone().next(),
		"released, and not removed": bound().deleted().next().at(now.Add(hour)).next(),
	} {
		t.Run(name, func(t *testing.T) {
			d := calculate(&w.at(now.Add(100 * hour)).observation)
			if d.action != actionNone || d.recheck != 0 {
				t.Errorf("got %+v", outcomeOf(d))
			}
			if diff := cmp.Diff(w.workspace.Status, d.status); diff != "" {
				t.Errorf("status (-stored +written):\n%s", diff)
			}
		})
	}
}

// TestConditionsTellWhenTheyChanged has a Pod get ready again: only Available has changed.
func TestConditionsTellWhenTheyChanged(t *testing.T) {
	w := bound().change(notReady).next()
	got := map[string]metav1.Time{}
	for _, c := range w.workspace.Status.Conditions {
		got[c.Type] = c.LastTransitionTime
	}
	want := map[string]metav1.Time{"Bound": metav1.NewTime(boundAt), "Available": metav1.NewTime(now)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}
