package wait

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// lockedBuffer takes what several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func TestWait(t *testing.T) {
	becomes := func(phases ...corev1alpha1.RunPhase) func(context.Context, client.Client) {
		return func(ctx context.Context, c client.Client) {
			for _, phase := range phases {
				<-time.After(time.Second)
				run := &corev1alpha1.Run{}
				if err := c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "build"}, run); err != nil {
					panic(err)
				}
				run.Status.Phase, run.Status.AssignedPod = phase, "pod"
				if err := c.Status().Update(ctx, run); err != nil {
					panic(err)
				}
			}
		}
	}
	deleted := func(ctx context.Context, c client.Client) {
		<-time.After(time.Second)
		if err := c.Delete(ctx, &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "build", Namespace: "team"}}); err != nil {
			panic(err)
		}
	}
	cases := map[string]struct {
		args     []string
		story    func(context.Context, client.Client)
		want     string
		wantErr  string
		wantCode int
	}{
		"the end":                           {args: []string{"build"}, story: becomes(corev1alpha1.RunRunning, corev1alpha1.RunFailed), want: "run.kruntimes.io/build Failed\n"},
		"success":                           {args: []string{"run", "build", "--for", "condition=Succeeded"}, story: becomes(corev1alpha1.RunSucceeded), want: "run.kruntimes.io/build Succeeded\n"},
		"success that cannot come any more": {args: []string{"build", "--for", "succeeded"}, story: becomes(corev1alpha1.RunFailed), wantErr: "Run build did not succeed: Failed", wantCode: cli.ExitFailed},
		"the start":                         {args: []string{"build", "--for", "running"}, story: becomes(corev1alpha1.RunScheduled, corev1alpha1.RunRunning), want: "run.kruntimes.io/build Running\n"},
		"a Pod":                             {args: []string{"build", "--for", "scheduled"}, story: becomes(corev1alpha1.RunScheduled), want: "run.kruntimes.io/build Scheduled\n"},
		"what has come to pass already":     {args: []string{"old"}, want: "run.kruntimes.io/old Succeeded\n"},
		"deletion":                          {args: []string{"build", "--for", "deleted"}, story: deleted, want: "run.kruntimes.io/build deleted\n"},
		"deletion of what is not there":     {args: []string{"nope", "--for", "deleted"}, want: "run.kruntimes.io/nope deleted\n"},
		"the end of what is deleted":        {args: []string{"build"}, story: deleted, wantErr: "Run build was deleted before it could end", wantCode: cli.ExitFailed},
		"too long":                          {args: []string{"build", "--timeout", "2s"}, wantErr: "timed out after 2s waiting for Run build to end", wantCode: cli.ExitFailed},
		"what is not there":                 {args: []string{"nope"}, wantErr: `there is no Run "nope" in namespace "team"`, wantCode: cli.ExitFailed},
		"an unknown point":                  {args: []string{"build", "--for", "ready"}, wantErr: "--for ready: there is no such point", wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				meta := func(name string) metav1.ObjectMeta {
					return metav1.ObjectMeta{Name: name, Namespace: "team", UID: "uid"}
				}
				var once sync.Once
				c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithStatusSubresource(&corev1alpha1.Run{}).WithObjects(
					&corev1alpha1.Run{ObjectMeta: meta("build"), Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending}},
					&corev1alpha1.Run{ObjectMeta: meta("old"), Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded}}).Build(), interceptor.Funcs{
					Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
						w, err := c.Watch(ctx, list, opts...)
						if tc.story != nil {
							once.Do(func() { go tc.story(t.Context(), c) })
						}
						return w, err
					}})
				var out, errOut lockedBuffer
				f := &cli.Factory{IO: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, Name: "krt",
					Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
				cmd := NewCmd(f, nil)
				cmd.SilenceErrors, cmd.SilenceUsage = true, true
				cmd.SetArgs(tc.args)
				gotErr := ""
				err := cmd.ExecuteContext(t.Context())
				if err != nil {
					gotErr = err.Error()
				}
				if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{out.buf.String(), gotErr}); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if code := cli.ExitCode(err); code != tc.wantCode {
					t.Errorf("exit code %d, want %d", code, tc.wantCode)
				}
			})
		})
	}
}
