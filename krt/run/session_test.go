package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/stages"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// stage is a cluster that plays a story as soon as somebody watches the Run that was created.
type stage struct {
	*testing.T
	session     *session
	client      client.WithWatch
	interrupts  *cli.Interrupts
	out, errOut lockedBuffer
	mu          sync.Mutex
	log         bytes.Buffer
	once        sync.Once
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newStage(t *testing.T, funcs interceptor.Funcs, story func(*stage)) *stage {
	t.Helper()
	st := &stage{T: t}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-a", Namespace: "team", UID: "uid-a"}}
	bash := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Name: "bash", Namespace: "team"}}
	if funcs.Watch == nil {
		funcs.Watch = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, opts...)
			st.once.Do(func() { go story(st) })
			return w, err
		}
	}
	st.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(pod, bash).
		WithStatusSubresource(&corev1alpha1.Run{}).Build(), funcs)
	f := &cli.Factory{IO: genericiooptions.IOStreams{Out: &st.out, ErrOut: &st.errOut}, Name: "krt", Now: time.Now}
	_, f.Interrupts = cli.NewInterrupts(t.Context())
	st.interrupts = f.Interrupts
	st.session = &session{
		options: &options{factory: f}, client: st.client, clock: clock.RealClock{},
		sink: &follow.Sink{Out: &st.out, Err: &st.errOut},
		logs: func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
			st.mu.Lock()
			defer st.mu.Unlock()
			return io.NopCloser(strings.NewReader(st.log.String())), nil
		},
	}
	return st
}

// print writes a line of the Run's output, end the end of it.
func (st *stage) print(line string) {
	st.record(logrecord.Record{Stream: logrecord.Stdout}.WithBytes([]byte(line)))
}

func (st *stage) end() { st.record(logrecord.Record{End: true}) }

func (st *stage) record(r logrecord.Record) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r.Time, r.Run, r.UID, r.Attempt = time.Now(), "build", "run-uid", 1
	if err := r.Encode(&st.log); err != nil {
		panic(err)
	}
}

func (st *stage) run() *corev1alpha1.Run {
	run := &corev1alpha1.Run{}
	if err := st.client.Get(st.Context(), client.ObjectKey{Namespace: "team", Name: "build"}, run); err != nil {
		panic(err)
	}
	return run
}

// become changes the status of the Run to a phase.
func (st *stage) become(phase corev1alpha1.RunPhase, change ...func(*corev1alpha1.RunStatus)) {
	run := st.run()
	run.Status.Phase, run.Status.Attempt, run.Status.AssignedPod, run.Status.AssignedPodUID = phase, 1, "pod-a", "uid-a"
	for _, c := range change {
		c(&run.Status)
	}
	if err := st.client.Status().Update(st.Context(), run); err != nil {
		panic(err)
	}
}

// untilCancelRequested returns when the Run is asked to end, or never.
func (st *stage) untilCancelRequested() {
	for !st.run().Spec.CancelRequested {
		<-time.After(10 * time.Millisecond)
	}
}

func newRun() *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "build", Namespace: "team", UID: "run-uid"},
		Spec: corev1alpha1.RunSpec{Runtime: "bash"}}
}

func failed(reason corev1alpha1.RunReason, code *int32) func(*corev1alpha1.RunStatus) {
	return func(s *corev1alpha1.RunStatus) { s.Reason, s.ExitCode, s.Message = reason, code, "words" }
}

func started(s *corev1alpha1.RunStatus) { s.StartTime = ptr.To(metav1.NowMicro()) }

func TestSession(t *testing.T) {
	ends := func(phase corev1alpha1.RunPhase, change ...func(*corev1alpha1.RunStatus)) func(*stage) {
		return func(st *stage) {
			st.become(corev1alpha1.RunScheduled)
			st.print("hello")
			st.end()
			st.become(phase, change...)
		}
	}
	const created = "krt: Run build created in namespace team\n"
	cases := map[string]struct {
		options  options
		story    func(*stage)
		wantCode int
		wantOut  string
		wantErr  string
		wantGone bool
	}{
		"success": {story: ends(corev1alpha1.RunSucceeded), wantOut: "hello\n", wantErr: created + "krt: Run build Succeeded\n"},
		"success, quietly, and nothing is left": {options: options{quiet: true, remove: true}, story: ends(corev1alpha1.RunSucceeded),
			wantOut: "hello\n", wantGone: true},
		"outputs are told": {story: ends(corev1alpha1.RunSucceeded, func(s *corev1alpha1.RunStatus) {
			s.Outputs = map[string]corev1alpha1.OutputValue{"b": "2", "a": "1\nmore"}
		}), wantOut: "hello\n", wantErr: created + "krt: Run build Succeeded\n     output a=1\\nmore\n     output b=2\n"},
		"the script's exit code": {story: ends(corev1alpha1.RunFailed, failed(corev1alpha1.RunReasonScriptFailed, ptr.To[int32](7)), started, func(s *corev1alpha1.RunStatus) {
			s.Message = "Exit code 7\nquoted\nlines"
		}), wantCode: 7,
			wantOut: "hello\n", wantErr: created + "krt: Run build Failed (ScriptFailed, exit code 7)\n"},
		"what a failed script could not print": {options: options{quiet: true}, story: ends(corev1alpha1.RunFailed, started, func(s *corev1alpha1.RunStatus) {
			s.Reason, s.ExitCode = corev1alpha1.RunReasonScriptFailed, ptr.To[int32](7)
			s.Message = "Exit code 7. Its outputs were dropped: line 1 has no \"=\"\nquoted\nlines"
		}), wantCode: 7, wantOut: "hello\n", wantErr: "krt: Run build Failed (ScriptFailed, exit code 7)\n     Its outputs were dropped: line 1 has no \"=\"\n"},
		"a command that does not exist": {options: options{quiet: true}, story: ends(corev1alpha1.RunFailed, failed(corev1alpha1.RunReasonScriptFailed, ptr.To[int32](127))), wantCode: 127,
			wantOut: "hello\n", wantErr: "krt: Run build Failed (ScriptFailed, exit code 127)\n     words\n"},
		"a script ended by a signal": {options: options{quiet: true}, story: ends(corev1alpha1.RunFailed, failed(corev1alpha1.RunReasonOOMKilled, ptr.To[int32](137))), wantCode: 137,
			wantOut: "hello\n", wantErr: "krt: Run build Failed (OOMKilled, exit code 137)\n     words\n"},
		"invalid outputs of a script that succeeded": {options: options{remove: true}, story: ends(corev1alpha1.RunFailed, failed(corev1alpha1.RunReasonOutputsInvalid, ptr.To[int32](0))),
			wantCode: cli.ExitFailed, wantOut: "hello\n", wantErr: created + "krt: Run build Failed (OutputsInvalid)\n     words\n", wantGone: true},
		"a timeout": {options: options{quiet: true}, story: ends(corev1alpha1.RunTimeout, failed(corev1alpha1.RunReasonTimeout, ptr.To[int32](143))), wantCode: cli.ExitTimeout,
			wantOut: "hello\n", wantErr: "krt: Run build Timeout (exit code 143)\n     words\n"},
		"cancelled by somebody else": {options: options{quiet: true}, story: ends(corev1alpha1.RunCancelled, failed(corev1alpha1.RunReasonCancelled, nil)), wantCode: cli.ExitInterrupted,
			wantOut: "hello\n", wantErr: "krt: Run build Cancelled\n     words\n"},
		"deleted by somebody else": {options: options{quiet: true}, story: func(st *stage) {
			st.become(corev1alpha1.RunScheduled)
			st.print("hello")
			if err := st.client.Delete(st.Context(), st.run()); err != nil {
				panic(err)
			}
		}, wantCode: cli.ExitFollow, wantOut: "hello\n", wantErr: "krt: the log of Pod pod-a does not hold the end of the output, some of which may be missing\n", wantGone: true},
		"the first ctrl-C cancels and follows to the end": {options: options{quiet: true, remove: true}, story: func(st *stage) {
			st.become(corev1alpha1.RunRunning)
			st.print("begun")
			st.interrupts.Notify(os.Interrupt)
			st.interrupts.Notify(os.Interrupt) // of the same ctrl-C
			st.untilCancelRequested()
			<-time.After(time.Minute)
			st.print("tidied up")
			st.end()
			st.become(corev1alpha1.RunCancelled, failed(corev1alpha1.RunReasonCancelled, ptr.To[int32](143)))
		}, wantCode: cli.ExitInterrupted, wantOut: "begun\ntidied up\n", wantGone: true,
			wantErr: "krt: cancelling the Run; press ctrl-C again to leave at once\nkrt: Run build Cancelled (exit code 143)\n     words\n"},
		"ctrl-C, but the script succeeds": {options: options{quiet: true}, story: func(st *stage) {
			st.become(corev1alpha1.RunRunning)
			st.interrupts.Notify(os.Interrupt)
			st.untilCancelRequested()
			st.end()
			st.become(corev1alpha1.RunSucceeded)
		}, wantCode: cli.ExitInterrupted, wantErr: "krt: cancelling the Run; press ctrl-C again to leave at once\n"},
		"the second ctrl-C leaves at once": {options: options{quiet: true}, story: func(st *stage) {
			st.become(corev1alpha1.RunRunning)
			st.interrupts.Notify(os.Interrupt)
			st.untilCancelRequested()
			<-time.After(stages.SameInterrupt)
			st.interrupts.Notify(os.Interrupt)
		}, wantCode: cli.ExitInterrupted,
			wantErr: "krt: cancelling the Run; press ctrl-C again to leave at once\nkrt: left before the end of Run build, which is being cancelled\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStage(t, interceptor.Funcs{}, tc.story)
				st.session.quiet, st.session.remove = tc.options.quiet, tc.options.remove
				err := ownError(true, st.session.do(t.Context(), newRun()))
				if got := cli.ExitCode(err); got != tc.wantCode {
					t.Errorf("exit code %d, want %d (%v)", got, tc.wantCode, err)
				}
				if diff := cmp.Diff(tc.wantOut, st.out.String()); diff != "" {
					t.Errorf("stdout (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantErr, st.errOut.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
				getErr := st.client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "build"}, &corev1alpha1.Run{})
				if gone := apierrors.IsNotFound(getErr); gone != tc.wantGone {
					t.Errorf("the Run is gone: %t, want %t", gone, tc.wantGone)
				}
			})
		})
	}
}

// ctrl-C while the request to create the Run is under way: the Run is cancelled as soon as it exists.
func TestInterruptBeforeTheRunExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st *stage
		st = newStage(t, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				st.interrupts.Notify(os.Interrupt)
				<-time.After(time.Second)
				return c.Create(ctx, obj, opts...)
			},
		}, func(st *stage) {
			st.untilCancelRequested()
			st.become(corev1alpha1.RunCancelled, func(s *corev1alpha1.RunStatus) { s.AssignedPod, s.AssignedPodUID = "", "" })
		})
		err := st.session.do(t.Context(), newRun())
		if got := cli.ExitCode(err); got != cli.ExitInterrupted {
			t.Errorf("exit code %d, want %d (%v)", got, cli.ExitInterrupted, err)
		}
	})
}

// A second ctrl-C ends even a request that never returns.
func TestLeavingARequestThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st *stage
		st = newStage(t, interceptor.Funcs{
			Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
				st.interrupts.Notify(os.Interrupt)
				<-time.After(stages.SameInterrupt + time.Millisecond)
				st.interrupts.Notify(os.Interrupt)
				<-ctx.Done()
				return ctx.Err()
			},
		}, nil)
		err := st.session.do(t.Context(), newRun())
		if got := cli.ExitCode(err); got != cli.ExitInterrupted {
			t.Errorf("exit code %d, want %d (%v)", got, cli.ExitInterrupted, err)
		}
	})
}

// A cancellation that does not get through is asked for again.
func TestCancellationIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 3
		st := newStage(t, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if refusals--; refusals >= 0 {
					return apierrors.NewServiceUnavailable("starting")
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		}, func(st *stage) {
			st.interrupts.Notify(os.Interrupt)
			st.untilCancelRequested()
			st.end()
			st.become(corev1alpha1.RunCancelled)
		})
		if got := cli.ExitCode(st.session.do(t.Context(), newRun())); got != cli.ExitInterrupted {
			t.Errorf("exit code %d, want %d", got, cli.ExitInterrupted)
		}
	})
}

func TestFollowingARunOfAMissingRuntimeWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage(t, interceptor.Funcs{}, func(st *stage) {
			<-time.After(time.Second / 2)
			st.become(corev1alpha1.RunCancelled, func(s *corev1alpha1.RunStatus) { s.AssignedPod, s.AssignedPodUID = "", "" })
		})
		run := newRun()
		run.Spec.Runtime = "basch"
		_ = st.session.do(t.Context(), run)
		want := "krt: warning: there is no Runtime \"basch\" in namespace \"team\"; the Run waits until there is one (there is: bash)\n"
		if !strings.Contains(st.errOut.String(), want) {
			t.Errorf("stderr %q does not hold %q", st.errOut.String(), want)
		}
	})
}

func TestOwnError(t *testing.T) {
	cases := map[string]struct {
		follow bool
		err    error
		want   int
	}{
		"nothing":                       {follow: true, want: cli.ExitOK},
		"a wrong flag":                  {err: cli.Usagef("x"), want: cli.ExitUsage},
		"a wrong flag with --follow":    {follow: true, err: cli.Usagef("x"), want: cli.ExitFollow},
		"no cluster with --follow":      {follow: true, err: fmt.Errorf("x: %w", &cli.NoClusterError{}), want: cli.ExitFollow},
		"any other error with --follow": {follow: true, err: errors.New("x"), want: cli.ExitFollow},
		"a script that ended with 1":    {follow: true, err: &cli.ExitError{Code: 1}, want: 1},
		"a script that ended with 2":    {follow: true, err: &cli.ExitError{Code: 2}, want: 2},
		"an interrupt with --follow":    {follow: true, err: fmt.Errorf("x: %w", context.Canceled), want: cli.ExitInterrupted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cli.ExitCode(ownError(tc.follow, tc.err)); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}
