package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/explain"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// notice is a Run that is to be told why it waits.
type notice struct {
	// run is the version that the verdict is about.
	run     *corev1alpha1.Run
	verdict explain.Verdict
}

// maxConclusions bounds what one call of notices concludes. Unit: cycles; eight lines of a class count as one.
const maxConclusions = 64

// notices concludes why Runs wait, for Runtimes that have changed, and returns at most limit Runs that are to be told. With
// many Runtimes, or many classes of Runs in one, the next call goes on.
func (e *engine) notices(limit int) []notice {
	now := e.clock.Now()
	budget := maxConclusions
	for range e.runtimesToExplain() {
		if budget <= 0 {
			break
		}
		budget -= e.concludeNext(budget, now)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []notice
	for _, note := range e.book.Due(now, limit) {
		if t, ok := e.runs[note.Run]; ok && t.state == runWaiting {
			out = append(out, notice{run: t.run, verdict: note.Verdict})
		}
	}
	return out
}

// runtimesToExplain is the number of Runtimes on whose waiting Runs there is something to conclude.
func (e *engine) runtimesToExplain() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unexplained.len()
}

// concludeNext runs a cycle for one Run of each class that waits for an event, of the Runtime whose turn it is, on what is
// known now: the words may have changed though nothing has happened that helps, for instance because a Pod's image cannot be
// pulled. It returns what that has cost. When there are more classes or lines, the Runtime gets another turn, until all were
// come by since the last change.
func (e *engine) concludeNext(budget int, now time.Time) (cost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	turn, ok := e.unexplained.take()
	if !ok {
		return 0
	}
	key := turn.key
	waiting, more := e.queue.Waiting(key, turn.changed, budget)
	if more {
		e.unexplained.put(key, false)
	}
	var crowded []crowding
	for _, w := range waiting {
		cost += 1 + len(w.Lines)/8
		info := w.Run
		result := e.rules.Schedule(e.cache.SnapshotFor(info, now), info)
		if result.Pod != nil {
			// No plugin has declared the event that helped. The Run must not wait for the safety net all the same.
			e.queue.Retry(info.UID)
			e.signal()
			continue
		}
		d := result.Diagnosis
		if d.Class != w.Class || d.Line != w.Line {
			// The Runs there have come or left since. The others of the class may be better off.
			e.reject(info, w.Order, d, now)
			w.Lines = []string{d.Line}
		}
		if pods := d.Crowded(); len(pods) > 0 {
			crowded = append(crowded, crowding{run: info, pods: pods})
		}
		v := explain.Verdict{Reason: d.Reason, Message: d.Message()}
		for _, line := range w.Lines {
			e.book.Conclude(groupOf(info, line), v, now)
		}
	}
	e.considerHold(key, crowded, now)
	return cost
}

// explainBackoff tells a Run that was handed back when it is tried again.
func (e *engine) explainBackoff(t *trackedRun, until time.Time) {
	group := "backoff/" + string(t.info.UID)
	e.book.Wait(t.info.UID, group, t.since, told(t.run))
	e.book.Conclude(group, explain.Verdict{
		Reason:  corev1alpha1.ReasonBackoff,
		Message: corev1alpha1.BackoffMessage(t.run.Status.Attempt, until),
	}, e.clock.Now())
}

// informed takes in that a Run was told, and the version that this made.
func (e *engine) informed(n notice, after *corev1alpha1.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A later bind then rests on this version, without waiting for the informer.
	if t, ok := e.runs[after.UID]; ok && t.run.ResourceVersion == n.run.ResourceVersion {
		t.run = after
	}
}

// uninformed takes in that a Run could not be told: it still knows what it knew.
func (e *engine) uninformed(n notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.runs[n.run.UID]; ok && t.state == runWaiting {
		e.settle(t)
	}
}

// waitingRuns tells whether any Run may have to be told something.
func (e *engine) waitingRuns() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.Len()
}

// told is what a Run's condition says now.
func told(run *corev1alpha1.Run) explain.Verdict {
	c := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionScheduled)
	if c == nil || c.Status != "False" {
		return explain.Verdict{}
	}
	return explain.Verdict{Reason: c.Reason, Message: c.Message}
}

// group is the group of the book in which the Run waits.
func (t *trackedRun) group() string { return groupOf(t.info, t.line) }

func groupOf(info *framework.RunInfo, line string) string {
	return info.Namespace + "/" + info.Runtime + "/" + line
}
