package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// A story is what happens to a Run while it is followed. It runs in a bubble in which time passes only while all wait.
func TestFollow(t *testing.T) {
	cases := map[string]struct {
		faults []fault
		story  func(s *scene)
		// want is standard output, wantTalk what krt says.
		want     string
		wantTalk []string
		// within bounds the time between the end of the story and the end of following.
		within time.Duration
	}{
		"a Run that prints two lines and ends": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "one"), rec(time.Now(), "two"), endRec(time.Now()))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "one\ntwo\n",
		},
		"a Run that has ended before anybody looks": {
			story: func(s *scene) {
				s.log.write(rec(time.Now(), "one"), endRec(time.Now()))
				s.assign(1, "pod-a", "uid-a")
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "one\n",
		},
		"lines of other Runs and attempts, and other text, are not shown": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				other, later := rec(time.Now(), "not mine"), rec(time.Now(), "not now")
				other.UID, later.Attempt = otherUID, 2
				s.log.write(other, rec(time.Now(), "mine, of "+testUID), later)
				s.log.writeLine(time.Now(), []byte("panic: "+testUID+"\n"))
				s.log.write(logrecord.Record{Time: time.Now(), UID: otherUID, Attempt: 1, End: true}, endRec(time.Now()))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "mine, of " + testUID + "\n",
		},
		"a connection that breaks in the middle of a record": {
			faults: []fault{{dropAfter: 250}, {dropAfter: 420}, {}},
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				for i := range 5 {
					s.log.write(rec(time.Now(), fmt.Sprint("line ", i)))
				}
				s.log.write(endRec(time.Now()))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "line 0\nline 1\nline 2\nline 3\nline 4\n",
		},
		"equal lines with equal times, and a connection that breaks after each": {
			faults: []fault{{dropAfter: 160}, {dropAfter: 320}, {dropAfter: 480}, {}},
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				now := time.Now()
				s.log.write(rec(now, "same"), rec(now, "same"), rec(now, "same"), rec(now, "same"), endRec(now))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "same\nsame\nsame\nsame\n",
		},
		"a log that cannot be opened at first": {
			faults: []fault{{refuse: apierrors.NewBadRequest("container runtimed is waiting to start")}, {refuse: io.ErrUnexpectedEOF}, {}},
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "one"), endRec(time.Now()))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "one\n",
		},
		"a Run that is over without an end record": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "one"))
				s.finish(corev1alpha1.RunFailed)
			},
			want:     "one\n",
			wantTalk: []string{"the log of Pod pod-a does not hold the end of the output, some of which may be missing"},
			within:   endGrace + time.Second,
		},
		"output that comes late, but steadily, is waited for": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.finish(corev1alpha1.RunSucceeded)
				for i := range 5 {
					pass(endGrace - time.Second)
					s.log.write(rec(time.Now(), fmt.Sprint("late ", i)))
				}
				s.log.write(endRec(time.Now()))
			},
			want: "late 0\nlate 1\nlate 2\nlate 3\nlate 4\n",
		},
		"a node that takes long to find the beginning in a large log": {
			faults: []fault{{delay: 4 * endGrace}, {delay: 4 * endGrace}},
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "one"), endRec(time.Now()))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want:   "one\n",
			within: 6 * endGrace,
		},
		"a node that sends nothing at all": {
			faults: []fault{{delay: time.Hour}, {delay: time.Hour}},
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.finish(corev1alpha1.RunSucceeded)
			},
			wantTalk: []string{"the log of Pod pod-a does not hold the end of the output, some of which may be missing: the log brought nothing for 1m0s"},
			within:   endGrace + stallLimit + time.Second,
		},
		"a Pod that is busy with other Runs, and an end that is missing": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "one"))
				s.finish(corev1alpha1.RunFailed)
				for range 20 {
					other := rec(time.Now(), "noise")
					other.UID = otherUID
					s.log.write(other)
					pass(time.Second)
				}
			},
			want:     "one\n",
			wantTalk: []string{"the log of Pod pod-a does not hold the end of the output, some of which may be missing"},
		},
		"the clock of the node is far behind that of the scheduler": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				past := time.Now().Add(-time.Hour)
				s.log.write(rec(past, "one"), endRec(past))
				s.finish(corev1alpha1.RunSucceeded)
			},
			want:   "one\n",
			within: endGrace + time.Second,
		},
		"a Run that waits tells why, once for each reason": {
			story: func(s *scene) {
				waits := func(reason, message string) {
					s.update(func(st *corev1alpha1.RunStatus) {
						st.Conditions = []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse,
							Reason: reason, Message: message}}
					})
					pass(3 * time.Second)
				}
				pass(schedulerPatience + time.Second)
				waits(corev1alpha1.ReasonNoReadyPods, "Runtime bash has 1 Pod, none is ready")
				waits(corev1alpha1.ReasonInsufficientCapacity, "all 4 places are taken")
				s.assign(1, "pod-a", "uid-a")
				s.update(func(st *corev1alpha1.RunStatus) { st.Phase = corev1alpha1.RunRunning })
				pass(time.Second)
				s.log.write(endRec(time.Now()))
				s.finish(corev1alpha1.RunSucceeded)
			},
			wantTalk: []string{
				"Run build waits: the scheduler has not looked at it yet",
				"Run build waits: Runtime bash has 1 Pod, none is ready (NoReadyPods)",
				"Run build waits: all 4 places are taken (InsufficientCapacity)",
				"Run build runs on Pod pod-a",
			},
		},
		"a retry shows the output of both attempts": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "first"), endRec(time.Now()))
				pass(time.Second)
				s.update(func(st *corev1alpha1.RunStatus) {
					st.Phase, st.Attempt, st.AssignedPod, st.AssignedPodUID = corev1alpha1.RunPending, 2, "", ""
					st.Reason, st.Message = corev1alpha1.RunReasonScriptFailed, "boom"
				})
				pass(time.Second / 2)
				second, end := rec(time.Now(), "second"), endRec(time.Now())
				second.Attempt, end.Attempt = 2, 2
				s.log.write(second, end)
				s.assign(2, "pod-a", "uid-a")
				s.finish(corev1alpha1.RunSucceeded)
			},
			want:     "first\nsecond\n",
			wantTalk: []string{"Run build: attempt 1 ended (ScriptFailed); attempt 2 follows"},
		},
		"retries that are faster than the delivery of their output": {
			story: func(s *scene) {
				pass(time.Millisecond) // the fake cluster shows nothing of what was before the watch
				for attempt := int32(1); attempt <= 3; attempt++ {
					line, end := rec(time.Now(), fmt.Sprintf("attempt %d", attempt)), endRec(time.Now())
					line.Attempt, end.Attempt = attempt, attempt
					s.log.write(line, end)
					s.assign(attempt, "pod-a", "uid-a")
					if attempt == 3 {
						break
					}
					s.update(func(st *corev1alpha1.RunStatus) {
						st.Phase, st.Attempt, st.AssignedPod, st.AssignedPodUID = corev1alpha1.RunPending, attempt+1, "", ""
						st.Reason, st.ExitCode = corev1alpha1.RunReasonScriptFailed, ptr.To(attempt)
					})
				}
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "attempt 1\nattempt 2\nattempt 3\n",
			wantTalk: []string{
				"Run build: attempt 1 ended (ScriptFailed, exit code 1); attempt 2 follows",
				"Run build: attempt 2 ended (ScriptFailed, exit code 2); attempt 3 follows",
			},
		},
		"a retry that waits is announced with its wait": {
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				s.log.write(rec(time.Now(), "first"), endRec(time.Now()))
				pass(time.Millisecond)
				next := metav1.NewMicroTime(time.Now().Add(90 * time.Second))
				s.update(func(st *corev1alpha1.RunStatus) {
					st.Phase, st.Attempt, st.AssignedPod, st.AssignedPodUID = corev1alpha1.RunPending, 2, "", ""
					st.Reason, st.Message, st.NextAttemptTime = corev1alpha1.RunReasonTimeout, "Stopped after the timeout of 1s", &next
				})
				pass(time.Second / 2)
				s.finish(corev1alpha1.RunCancelled)
			},
			want:     "first\n",
			wantTalk: []string{"Run build: attempt 1 ended (Timeout: Stopped after the timeout of 1s); attempt 2 follows in 1m30s"},
		},
		"a retry on another Pod, the first having vanished": {
			story: func(s *scene) {
				s.assign(1, "pod-gone", "uid-gone")
				pass(time.Second)
				second, end := rec(time.Now(), "second"), endRec(time.Now())
				second.Attempt, end.Attempt = 2, 2
				s.log.write(second, end)
				s.assign(2, "pod-a", "uid-a")
				s.finish(corev1alpha1.RunSucceeded)
			},
			want: "second\n",
			wantTalk: []string{
				"Pod pod-gone is gone; output that is not shown above is lost",
				"Run build: attempt 1 ended; attempt 2 follows",
			},
		},
		"a Pod of the same name that is another one": {
			story: func(s *scene) {
				s.log.write(rec(time.Now(), "somebody else's"), endRec(time.Now()))
				s.assign(1, "pod-a", "uid-of-before")
				s.finish(corev1alpha1.RunFailed)
			},
			wantTalk: []string{"Pod pod-a is gone; output that is not shown above is lost"},
		},
		"a Run that is cancelled while it waits": {
			story: func(s *scene) { s.finish(corev1alpha1.RunCancelled) },
		},
		"a log that may not be read": {
			faults: []fault{{refuse: apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "pod-a", errors.New("no"))}},
			story: func(s *scene) {
				s.assign(1, "pod-a", "uid-a")
				pass(time.Second)
				s.finish(corev1alpha1.RunSucceeded)
			},
			wantTalk: []string{`opening the log of Pod pod-a: pods/log "pod-a" is forbidden: no`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, newPodLog(tc.faults...))
				done := s.follow(t.Context())
				tc.story(s)
				told := time.Now()
				got := <-done
				if got.err != nil {
					t.Fatalf("following: %v", got.err)
				}
				if diff := cmp.Diff(tc.want, s.out.String()); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantTalk, s.talk()); diff != "" {
					t.Errorf("talk (-want +got):\n%s", diff)
				}
				within := max(tc.within, 3*time.Second)
				if late := time.Since(told); late > within {
					t.Errorf("following ended %s after the story, want at most %s", late, within)
				}
				if !got.result.Run.Status.Phase.IsTerminal() {
					t.Errorf("phase %s, want a terminal one", got.result.Run.Status.Phase)
				}
			})
		})
	}
}

// Every point at which the connection may break, one after the other, must make no difference to the output.
func TestFollowLosesNothingWhereverTheLogBreaks(t *testing.T) {
	want := "a\nb\nb\nc\n\nd"
	for at := 1; at < 1200; at += 7 {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, newPodLog(fault{dropAfter: at}, fault{dropAfter: at + 150}, fault{}))
			done := s.follow(t.Context())
			s.assign(1, "pod-a", "uid-a")
			now := time.Now()
			last := rec(now.Add(2*time.Second), "d")
			last.Partial = true
			s.log.write(rec(now, "a"), rec(now, "b"), rec(now, "b"), rec(now.Add(time.Second), "c"), rec(now.Add(time.Second), ""), last, endRec(now.Add(2*time.Second)))
			s.finish(corev1alpha1.RunSucceeded)
			got := <-done
			if got.err != nil || s.out.String() != want || s.errOut.String() != "" {
				t.Fatalf("broken after %d bytes: output %q, talk %q, error %v; want output %q", at, s.out.String(), s.errOut.String(), got.err, want)
			}
		})
	}
}

func TestFollowSurvivesWatchesThatBreakAfterEveryEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog())
		s.breakWatches = 1
		done := s.follow(t.Context())
		s.assign(1, "pod-a", "uid-a")
		pass(time.Second)
		s.update(func(st *corev1alpha1.RunStatus) { st.Phase = corev1alpha1.RunRunning })
		pass(time.Second)
		s.log.write(rec(time.Now(), "one"), endRec(time.Now()))
		s.finish(corev1alpha1.RunSucceeded)
		got := <-done
		if got.err != nil || s.out.String() != "one\n" || s.errOut.String() != "" {
			t.Errorf("output %q, talk %q, error %v", s.out.String(), s.errOut.String(), got.err)
		}
	})
}

func TestFollowOfADeletedRun(t *testing.T) {
	cases := map[string]struct {
		before      func(s *scene)
		wantDeleted bool
		want        string
	}{
		"before its end": {before: func(s *scene) { s.assign(1, "pod-a", "uid-a"); s.log.write(rec(time.Now(), "one")) }, wantDeleted: true, want: "one\n"},
		"while it waits": {before: func(*scene) {}, wantDeleted: true},
		"as soon as it has ended": {before: func(s *scene) {
			s.assign(1, "pod-a", "uid-a")
			s.log.write(endRec(time.Now()))
			s.finish(corev1alpha1.RunSucceeded)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, newPodLog())
				done := s.follow(t.Context())
				tc.before(s)
				if err := s.client.Delete(t.Context(), s.run()); err != nil {
					t.Fatal(err)
				}
				got := <-done
				if got.err != nil || got.result.Deleted != tc.wantDeleted || s.out.String() != tc.want {
					t.Errorf("deleted %t, output %q, error %v", got.result.Deleted, s.out.String(), got.err)
				}
				if got.took > endGrace+2*time.Second {
					t.Errorf("took %s", got.took)
				}
			})
		})
	}
}

// runtimed was restarted while the Run executed: what it had logged before is in the log of the previous container.
func TestFollowReadsTheLogOfBeforeARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog())
		previous := newPodLog()
		previous.write(rec(time.Now(), "before"))
		previous.close()
		s.assign(1, "pod-a", "uid-a")
		pod := testPod("pod-a", "uid-a")
		if err := s.client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pod = testPod("pod-a", "uid-a")
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: corev1alpha1.ContainerRuntimed, RestartCount: 1,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(time.Minute))}}}}
		if err := s.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		s.log.write(rec(time.Now().Add(2*time.Minute), "after"), endRec(time.Now().Add(2*time.Minute)))
		s.finish(corev1alpha1.RunSucceeded)

		o := s.options()
		o.Logs = func(ctx context.Context, ns, name string, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
			if opts.Previous {
				return previous.open(ctx, ns, name, opts)
			}
			return s.log.open(ctx, ns, name, opts)
		}
		if _, err := Follow(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got, want := s.out.String(), "before\nafter\n"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
	})
}

func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog())
		ctx, cancel := context.WithCancel(t.Context())
		done := s.follow(ctx)
		s.assign(1, "pod-a", "uid-a")
		pass(time.Second)
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) {
			t.Errorf("error %v, want %v", got.err, context.Canceled)
		}
	})
}

// A person looks at the output with a pager: nothing may be lost while the pager does not read.
func TestFollowWaitsForABlockedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog())
		s.assign(1, "pod-a", "uid-a")
		s.log.write(rec(time.Now(), "one"), rec(time.Now(), "two"), endRec(time.Now()))
		s.finish(corev1alpha1.RunSucceeded)
		reader, writer := io.Pipe()
		o := s.options()
		o.Sink.Out = writer
		done := make(chan error, 1)
		go func() {
			_, err := Follow(t.Context(), o)
			_ = writer.Close()
			done <- err
		}()
		pass(10 * endGrace)
		got, err := io.ReadAll(reader)
		if err != nil || string(got) != "one\ntwo\n" || s.errOut.String() != "" {
			t.Errorf("output %q, talk %q, error %v", got, s.errOut.String(), err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFollowShowsALineOfAMegabyte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newPodLog(fault{dropAfter: 300_000}, fault{dropAfter: 800_000}, fault{}))
		done := s.follow(t.Context())
		s.assign(1, "pod-a", "uid-a")
		line := strings.Repeat("0123456789abcde\x1b", 1<<16)
		for piece := 0; piece < len(line); piece += logrecord.MaxLine {
			r := rec(time.Now(), line[piece:piece+logrecord.MaxLine])
			r.Partial = piece+logrecord.MaxLine < len(line)
			s.log.write(r)
		}
		s.log.write(endRec(time.Now()))
		s.finish(corev1alpha1.RunSucceeded)
		if got := <-done; got.err != nil || s.out.String() != line+"\n" {
			t.Errorf("%d bytes came, want %d and the same; error %v", len(s.out.String()), len(line)+1, got.err)
		}
	})
}
