package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/krt/cli"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newFactory() (f *cli.Factory, out, errOut *bytes.Buffer) {
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	return cli.NewFactory(streams, func() time.Time { return noon }), out, errOut
}

func execute(t *testing.T, cmd *cobra.Command, args ...string) error {
	t.Helper()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(t.Context())
}

func TestUpParses(t *testing.T) {
	cases := map[string]struct {
		args []string
		want upOptions
	}{
		"nothing": {},
		"everything": {
			args: []string{
				"--detach", "--separate-processes", "--state-dir=/s", "--port=6443", "--runtimed-binary=/r", "--runtime-server-binary=/rs",
				"--manager-binary=/m", "--scheduler-binary=/sc",
			},
			want: upOptions{detach: true, cluster: devcluster.Options{
				StateDir: "/s", Port: 6443, SeparateProcesses: true,
				Binaries: devcluster.Binaries{Runtimed: "/r", RuntimeServer: "/rs", Manager: "/m", Scheduler: "/sc"},
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, _, _ := newFactory()
			var got upOptions
			cmd := newUp(f, func(_ context.Context, o *upOptions) error {
				got = *o
				return nil
			})
			if err := execute(t, cmd, tc.args...); err != nil {
				t.Fatal(err)
			}
			got.factory = nil
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(upOptions{})); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	cases := map[string]struct {
		make func(*cli.Factory) *cobra.Command
		args []string
	}{
		"a port that is none":      {func(f *cli.Factory) *cobra.Command { return newUp(f, nil) }, []string{"--port=70000"}},
		"a format that is unknown": {func(f *cli.Factory) *cobra.Command { return newStatus(f, nil) }, []string{"-o", "xml"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, _, _ := newFactory()
			if code := cli.ExitCode(execute(t, tc.make(f), tc.args...)); code != cli.ExitUsage {
				t.Errorf("exit code %d, want %d", code, cli.ExitUsage)
			}
		})
	}
}

func TestWithoutACluster(t *testing.T) {
	cases := map[string]struct {
		make     func(*cli.Factory) *cobra.Command
		wantCode int
	}{
		"status":     {func(f *cli.Factory) *cobra.Command { return newStatus(f, nil) }, cli.ExitUnreachable},
		"kubeconfig": {func(f *cli.Factory) *cobra.Command { return newKubeconfig(f, nil) }, cli.ExitUnreachable},
		"down":       {func(f *cli.Factory) *cobra.Command { return newDown(f, nil) }, cli.ExitOK},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, out, errOut := newFactory()
			dir := filepath.Join(t.TempDir(), "dev")
			err := execute(t, tc.make(f), "--state-dir="+dir)
			if code := cli.ExitCode(err); code != tc.wantCode {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.wantCode)
			}
			if out.Len() > 0 {
				t.Errorf("data was printed: %q", out)
			}
			said := strings.ToLower(fmt.Sprint(err) + errOut.String())
			if !strings.Contains(said, "no dev cluster is running in "+strings.ToLower(dir)) {
				t.Errorf("it said %q", said)
			}
			var hint *cli.HintError
			if want := "start one with `krt dev up --state-dir " + dir + "`"; err != nil && (!errors.As(err, &hint) || hint.Hint != want) {
				t.Errorf("hint %+v, want %q", hint, want)
			}
		})
	}
}

func TestRunningClusterComesWithAHint(t *testing.T) {
	f, _, _ := newFactory()
	err := explainStart(f, &devcluster.RunningError{Dir: "/s", State: devcluster.State{PID: 7}})
	var hint *cli.HintError
	if !errors.As(err, &hint) || hint.Hint != "use it (`krt dev status --state-dir /s`), or end it first with `krt dev down --state-dir /s`" {
		t.Errorf("hint %+v", hint)
	}
	if err.Error() != "a dev cluster is running already in /s (pid 7)" {
		t.Errorf("error %q", err)
	}
}

func TestCommandNamesTheCluster(t *testing.T) {
	cases := map[string]struct {
		environ   []string
		dir, want string
	}{
		"the usual one":        {environ: []string{"XDG_STATE_HOME=/x"}, dir: "/x/kruntimes/dev", want: "krt dev down"},
		"another":              {environ: []string{"XDG_STATE_HOME=/x"}, dir: "/x/other", want: "krt dev down --state-dir /x/other"},
		"one where none is":    {dir: "/s", want: "krt dev down --state-dir /s"},
		"one with odd letters": {dir: "/it's mine", want: `krt dev down --state-dir '/it'\''s mine'`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, _, _ := newFactory()
			f.Environ = tc.environ
			if diff := cmp.Diff(tc.want, command(f, "down", tc.dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummaryNamesTheCluster(t *testing.T) {
	f, _, errOut := newFactory()
	summarise(f, devcluster.State{Kubeconfig: "/my s/kubeconfig", URL: "https://127.0.0.1:1", Node: "dev"})
	for _, want := range []string{"\n  export KUBECONFIG='/my s/kubeconfig'\n", `See "krt dev status --state-dir '/my s'" for its parts.`} {
		if !strings.Contains(errOut.String(), want) {
			t.Errorf("%q does not hold %q", errOut.String(), want)
		}
	}
}

func TestStatusTable(t *testing.T) {
	r := report{
		State: devcluster.State{
			PID: 7, Phase: devcluster.Ready, StartedAt: noon.Add(-90 * time.Second), URL: "https://127.0.0.1:1", Kubeconfig: "/s/kubeconfig",
			Parts: []devcluster.Part{{Name: "etcd", PID: 8, Log: "/s/logs/etcd.log"}, {Name: "kubelet", PID: 9, Log: "/s/logs/kubelet.log"}},
		},
		Health: map[string]string{"etcd": "ok", "kubelet": "node dev is not ready"},
	}
	want := `Ready for 1m30s (pid 7)
API server  https://127.0.0.1:1
kubeconfig  /s/kubeconfig

PART      PID   HEALTH                  LOG
etcd      8     ok                      /s/logs/etcd.log
kubelet   9     node dev is not ready   /s/logs/kubelet.log
`
	checkTable(t, r, want)
}

// While a cluster starts there is little to show, and nothing is shown without a value.
func TestStatusTableOfAStart(t *testing.T) {
	checkTable(t, report{State: devcluster.State{Phase: devcluster.Starting}}, "Starting\n")
	checkTable(t, report{State: devcluster.State{Phase: devcluster.Starting, PID: 7, StartedAt: noon.Add(-3 * time.Second)}}, "Starting for 3s (pid 7)\n")
}

func checkTable(t *testing.T, r report, want string) {
	t.Helper()
	var out bytes.Buffer
	if err := r.print(&out, "", noon); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
