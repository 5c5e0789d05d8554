package follow

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// stderrRec is a record of standard error.
func stderrRec(line string) logrecord.Record {
	r := rec(noon, line)
	r.Stream = logrecord.Stderr
	return r
}

// partial makes r a piece of a line that goes on.
func partial(r logrecord.Record) logrecord.Record {
	r.Partial = true
	return r
}

func TestTail(t *testing.T) {
	cases := map[string]struct {
		lines   int
		records []logrecord.Record
		want    string
	}{
		"none":                        {lines: 0, records: []logrecord.Record{rec(noon, "a")}},
		"fewer than there are":        {lines: 2, records: []logrecord.Record{rec(noon, "a"), rec(noon, "b"), rec(noon, "c")}, want: "b\nc\n"},
		"more than there are":         {lines: 9, records: []logrecord.Record{rec(noon, "a"), rec(noon, "b")}, want: "a\nb\n"},
		"a line of several records":   {lines: 1, records: []logrecord.Record{rec(noon, "a"), partial(rec(noon, "b")), rec(noon, "c")}, want: "bc\n"},
		"a last line without newline": {lines: 1, records: []logrecord.Record{rec(noon, "a"), partial(rec(noon, "b"))}, want: "b"},
		"lines of both streams, mingled": {lines: 2, records: []logrecord.Record{partial(rec(noon, "a")), stderrRec("x"), partial(stderrRec("y")), rec(noon, "b"), stderrRec("z")},
			want: "x\nyz\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kept := &tail{lines: tc.lines}
			for _, r := range tc.records {
				if err := kept.add(r); err != nil {
					t.Fatal(err)
				}
			}
			var got strings.Builder
			if err := kept.flush((&Sink{Out: &got, Err: &got}).Write); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTailHoldsNoMoreThanItMust(t *testing.T) {
	kept := &tail{lines: 10}
	for i := range 10_000 {
		if err := kept.add(rec(noon, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept.kept) != 10 {
		t.Errorf("holds %d records, want 10", len(kept.kept))
	}
}

func TestSink(t *testing.T) {
	cases := map[string]struct {
		sink             *Sink
		records          []logrecord.Record
		wantOut, wantErr string
	}{
		"streams stay apart":     {records: []logrecord.Record{rec(noon, "a"), stderrRec("b")}, wantOut: "a\n", wantErr: "b\n"},
		"bytes that are no text": {records: []logrecord.Record{rec(noon, "\xff\x00\r")}, wantOut: "\xff\x00\r\n"},
		"no newline is added":    {records: []logrecord.Record{partial(rec(noon, "a"))}, wantOut: "a"},
		"times stand at line starts": {sink: &Sink{Timestamps: true}, records: []logrecord.Record{partial(rec(noon, "a")), stderrRec("x"), rec(noon, "b"), rec(noon, "c")},
			wantOut: "2026-08-01T12:00:00.000000Z ab\n2026-08-01T12:00:00.000000Z c\n", wantErr: "2026-08-01T12:00:00.000000Z x\n"},
		"older records are left out": {sink: &Sink{Since: noon.Add(time.Second)}, records: []logrecord.Record{rec(noon, "a"), rec(noon.Add(time.Second), "b")}, wantOut: "b\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			sink := tc.sink
			if sink == nil {
				sink = &Sink{}
			}
			sink.Out, sink.Err = &out, &errOut
			for _, r := range tc.records {
				if err := sink.Write(r); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{tc.wantOut, tc.wantErr}, []string{out.String(), errOut.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTalkStandsOnALineOfItsOwn(t *testing.T) {
	cases := map[string]struct {
		oneScreen bool
		before    logrecord.Record
		want      string
	}{
		"after a whole line":                           {before: stderrRec("a"), want: "a\nkrt: talk\nkrt: more\n"},
		"after half a line of stderr":                  {before: partial(stderrRec("a")), want: "a\nkrt: talk\nkrt: more\n"},
		"after half a line of stdout":                  {before: partial(rec(noon, "a")), want: "akrt: talk\nkrt: more\n"},
		"after half a line of stdout, on one terminal": {oneScreen: true, before: partial(rec(noon, "a")), want: "a\nkrt: talk\nkrt: more\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			sink := &Sink{Out: &out, Err: &out, OneScreen: tc.oneScreen}
			if err := sink.Write(tc.before); err != nil {
				t.Fatal(err)
			}
			sink.Talk("%s", "talk")
			sink.Talk("%s", "more")
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestASinkThatCannotWriteEndsTheFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog())
		s.assign(1, "pod-a", "uid-a")
		s.log.write(rec(time.Now(), "one"))
		o := s.options()
		o.Sink.Out = failingWriter{}
		_, err := Follow(t.Context(), o)
		var local *WriteError
		if !errors.As(err, &local) {
			t.Errorf("error %v, want a WriteError", err)
		}
	})
}

func TestEachRecordSkipsWhatIsNone(t *testing.T) {
	good := func(line string) string {
		var buf bytes.Buffer
		if err := rec(noon, line).Encode(&buf); err != nil {
			t.Fatal(err)
		}
		return buf.String()
	}
	huge := `{"uid":"` + testUID + `","line":"` + strings.Repeat("x", 2*maxRecord) + "\"}\n"
	log := "plain " + testUID + "\n" + good("a") + "\n\n" + huge + good("b") + `{"uid":"` + testUID + `"}` + "\n" + good("cut off")[:60]
	var got []string
	err := eachRecord(strings.NewReader(log), testUID, func(r logrecord.Record) (bool, error) {
		got = append(got, r.Line)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWaiting(t *testing.T) {
	waits := []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse,
		Reason: corev1alpha1.ReasonNoPods, Message: "Runtime bash is scaled to 0"}}
	next := metav1.NewMicroTime(noon)
	cases := map[string]struct {
		status corev1alpha1.RunStatus
		cancel bool
		after  time.Duration
		want   string
	}{
		"the first moments":              {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Conditions: waits}, after: time.Second / 2},
		"a condition":                    {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Conditions: waits}, after: time.Second, want: "Runtime bash is scaled to 0 (NoPods)"},
		"a scheduler that is at it":      {after: time.Second},
		"no condition":                   {after: schedulerPatience, want: "the scheduler has not looked at it yet"},
		"a retry to come":                {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Attempt: 2, NextAttemptTime: &next}, after: time.Second, want: "attempt 2 starts at 2026-08-01T12:00:00Z"},
		"a cancellation to come":         {cancel: true, status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending, Conditions: waits}, after: time.Second, want: "its cancellation is requested, and nobody has acted on that yet"},
		"a Pod that does not start it":   {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunScheduled, AssignedPod: "p"}, after: scheduledPatience, want: "assigned to Pod p, which has not reported a start"},
		"a Pod that may yet start it":    {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunScheduled, AssignedPod: "p"}, after: time.Second},
		"an execution waits for nothing": {status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunRunning, Conditions: waits}, after: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &corev1alpha1.Run{Spec: corev1alpha1.RunSpec{CancelRequested: tc.cancel}, Status: tc.status}
			if diff := cmp.Diff(tc.want, Waiting(run, tc.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	cases := map[string]struct {
		story   func(s *scene)
		tail    *int
		want    string
		wantErr string
	}{
		"a Run that executes": {story: func(s *scene) {
			s.assign(1, "pod-a", "uid-a")
			s.log.write(rec(time.Now(), "one"), rec(time.Now(), "two"))
		}, want: "one\ntwo\n"},
		"the last line of one that has ended": {tail: ptr.To(1), story: func(s *scene) {
			s.assign(1, "pod-a", "uid-a")
			s.log.write(rec(time.Now(), "one"), rec(time.Now(), "two"), endRec(time.Now()))
			s.finish(corev1alpha1.RunSucceeded)
		}, want: "two\n"},
		"one whose end is missing": {story: func(s *scene) {
			s.assign(1, "pod-a", "uid-a")
			s.log.write(rec(time.Now(), "one"))
			s.finish(corev1alpha1.RunFailed)
		}, want: "one\n", wantErr: "the log of Pod pod-a does not hold the end of the output, some of which may be missing"},
		"one that a node with a slow clock executed": {story: func(s *scene) {
			s.assign(1, "pod-a", "uid-a")
			past := time.Now().Add(-time.Hour)
			s.log.write(rec(past, "one"), endRec(past))
			s.finish(corev1alpha1.RunSucceeded)
		}, want: "one\n"},
		"one that waits":             {story: func(*scene) {}, wantErr: "the Run has no Pod"},
		"one whose Pod has vanished": {story: func(s *scene) { s.assign(1, "pod-gone", "u"); s.finish(corev1alpha1.RunFailed) }, wantErr: "Pod pod-gone no longer exists, and its output is gone with it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, newPodLog())
			tc.story(s)
			o := s.options()
			o.Tail = tc.tail
			gotErr := ""
			if err := Read(t.Context(), o); err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{s.out.String(), gotErr}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// With a tail, nothing may be lost or doubled between the lines that were there and those that come.
func TestFollowWithATail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog())
		s.assign(1, "pod-a", "uid-a")
		now := time.Now()
		s.log.write(rec(now, "one"), rec(now, "two"), rec(now, "three"))
		o := s.options()
		o.Tail = ptr.To(1)
		done := make(chan error, 1)
		go func() {
			_, err := Follow(t.Context(), o)
			done <- err
		}()
		pass(time.Second)
		s.log.write(rec(now, "four"), endRec(now))
		s.finish(corev1alpha1.RunSucceeded)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("three\nfour\n", s.out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
