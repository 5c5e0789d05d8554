package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/stages"
)

// brokenPipe is an output that nobody reads any more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
}

// SIGTERM ends krt as ctrl-C does, with the code that tells of it.
func TestToldToTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage(t, interceptor.Funcs{}, func(st *stage) {
			st.become(corev1alpha1.RunRunning)
			st.interrupts.Notify(syscall.SIGTERM)
			st.untilCancelRequested()
			st.end()
			st.become(corev1alpha1.RunCancelled)
		})
		st.session.quiet = true
		if got, want := cli.ExitCode(st.session.do(t.Context(), newRun())), 143; got != want {
			t.Errorf("exit code %d, want %d", got, want)
		}
		if want := "krt: told to terminate: cancelling the Run; a second signal leaves at once\nkrt: Run build Cancelled\n"; st.errOut.String() != want {
			t.Errorf("stderr %q, want %q", st.errOut.String(), want)
		}
	})
}

// Whoever reads the output leaves: the Run must not go on unseen.
func TestAReaderWhoLeavesCancelsTheRun(t *testing.T) {
	for remove, wantTTL := range map[bool]*int32{false: nil, true: ptr.To[int32](0)} {
		t.Run(fmt.Sprint("remove ", remove), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStage(t, interceptor.Funcs{}, func(st *stage) {
					st.become(corev1alpha1.RunRunning)
					st.print("hello")
				})
				st.session.remove, st.session.sink.Out = remove, brokenPipe{}
				err := st.session.do(t.Context(), newRun())
				run := st.run()
				got := []any{cli.ExitCode(err), run.Spec.CancelRequested, run.Spec.TTLSecondsAfterFinished}
				if diff := cmp.Diff([]any{141, true, wantTTL}, got); diff != "" {
					t.Errorf("exit code, cancelRequested, ttl (-want +got):\n%s", diff)
				}
				if want := "krt: nobody reads the output any more: Run build is being cancelled\n"; !strings.HasSuffix(st.errOut.String(), want) {
					t.Errorf("stderr %q, want it to end in %q", st.errOut.String(), want)
				}
			})
		})
	}
}

// Whoever leaves at once is told what becomes of the Run, and whether it stays.
func TestLeavingTellsWhatStays(t *testing.T) {
	cases := map[string]struct {
		cancelled, remove bool
		want              string
	}{
		"cancelled":                    {cancelled: true, want: "left before the end of Run build, which is being cancelled"},
		"cancelled, to be deleted":     {cancelled: true, remove: true, want: "left before the end of Run build, which is being cancelled; the cluster deletes it after its end"},
		"not cancelled":                {want: "left before Run build was cancelled; do that with `krt cancel build -n team`"},
		"not cancelled, to be deleted": {remove: true, want: "left before Run build was cancelled, and it stays; `kubectl delete run build -n team` ends and deletes it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, interceptor.Funcs{}, nil)
			st.session.remove = tc.remove
			st.session.stages = &stages.Stages{}
			st.session.stages.Cancelled.Store(tc.cancelled)
			_ = st.session.leftBehind(newRun())
			if diff := cmp.Diff("krt: "+tc.want+"\n", st.errOut.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

// A hint must not lead into the refusal that it is about.
func TestRefusedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage(t, interceptor.Funcs{
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				return nil, apierrors.NewForbidden(schema.GroupResource{Group: "kruntimes.io", Resource: "runs"}, "", errors.New("no"))
			},
		}, nil)
		err := st.session.do(t.Context(), newRun())
		want := "the Run goes on; to follow it takes the right to watch Runs. `krt logs build -n team` and `krt get run build -n team` do without"
		var hint *cli.HintError
		if !errors.As(err, &hint) || hint.Hint != want {
			t.Errorf("error %v with hint %+v, want %q", err, hint, want)
		}
	})
}

func TestCommandHint(t *testing.T) {
	cases := map[string]struct {
		args    []string
		started bool
		want    string
	}{
		"a command line in one word": {args: []string{"ls -l 'x'"}, want: `no shell takes a command apart: write each word by itself, or -- sh -c 'ls -l '\''x'\'''`},
		"one that was found":         {args: []string{"/opt/my program"}, started: true},
		"one word":                   {args: []string{"nosuch"}},
		"a script":                   {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := newRun()
			run.Spec.Mode.Task = &corev1alpha1.TaskMode{Args: tc.args}
			run.Status.Phase = corev1alpha1.RunFailed
			if tc.started {
				run.Status.StartTime = ptr.To(metav1.NowMicro())
			}
			if diff := cmp.Diff(tc.want, commandHint(run)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMisunderstandings(t *testing.T) {
	const name = "\"ada\" is taken as the name of the Run; arguments of the script come after --"
	const stdin = "standard input is not handed to the Run; --file - reads a script from it"
	cases := map[string]struct {
		args []string
		data string
		want []string
	}{
		"a name after the file":           {args: []string{"-r", "sh", "--file", "x.sh", "--follow", "ada"}, want: []string{name}},
		"a name before the file":          {args: []string{"ada", "-r", "sh", "-f", "x.sh"}},
		"a name that comes again":         {args: []string{"ada", "-f", "x.sh", "-r", "ada"}},
		"an argument":                     {args: []string{"-r", "sh", "-f", "x.sh", "--", "ada"}},
		"quietly":                         {args: []string{"-r", "sh", "-q", "-f", "x.sh", "ada"}, data: "x"},
		"data for a command":              {args: []string{"-r", "sh", "--", "cat"}, data: "x", want: []string{stdin}},
		"a pipe that holds nothing":       {args: []string{"-r", "sh", "--", "cat"}},
		"a script from the pipe":          {args: []string{"-r", "sh", "--file", "-"}, data: "x"},
		"a name after the file, and data": {args: []string{"-r", "sh", "-f", "x.sh", "ada"}, data: "x", want: []string{name, stdin}},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer out.Close()
			if _, err := out.WriteString(tc.data); err != nil {
				t.Fatal(err)
			}
			var got []string
			f := &cli.Factory{IO: genericiooptions.IOStreams{In: in, Out: io.Discard, ErrOut: io.Discard}, Name: "krt", Args: append([]string{"run"}, tc.args...)}
			cmd := NewCmd(f, func(_ context.Context, o *options) error {
				got = o.misunderstandings()
				return nil
			})
			cmd.SetArgs(tc.args)
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
