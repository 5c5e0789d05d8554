package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var runsResource = schema.GroupResource{Group: "kruntimes.io", Resource: "runs"}

// notServed is what the API server answers for the path of a kind that it does not know.
func notServed() error {
	return apierrors.NewGenericServerResponse(404, "get", runsResource, "build", "404 page not found", 0, true)
}

func refused() error {
	return &url.Error{Op: "Get", URL: "https://127.0.0.1:1/api", Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
}

func TestExitCode(t *testing.T) {
	cases := map[string]struct {
		err  error
		want int
	}{
		"success":                       {want: ExitOK},
		"a code of its own":             {err: fmt.Errorf("x: %w", &ExitError{Code: 42}), want: 42},
		"a wrong command line":          {err: WithHint(Usagef("x"), "y"), want: ExitUsage},
		"a refused connection":          {err: fmt.Errorf("x: %w", refused()), want: ExitUnreachable},
		"a broken connection":           {err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, want: ExitUnreachable},
		"no configuration":              {err: WithHint(&NoClusterError{Reason: "x"}, "y"), want: ExitUnreachable},
		"an API server that is not up":  {err: apierrors.NewServiceUnavailable("starting"), want: ExitUnreachable},
		"a missing object":              {err: apierrors.NewNotFound(runsResource, "x"), want: ExitFailed},
		"no rights":                     {err: apierrors.NewForbidden(runsResource, "x", errors.New("no")), want: ExitFailed},
		"an interrupt":                  {err: &url.Error{Op: "Get", URL: "https://x", Err: context.Canceled}, want: ExitInterrupted},
		"a file that cannot be opened":  {err: &os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, want: ExitFailed},
		"anything else":                 {err: errors.New("x"), want: ExitFailed},
		"several, one of them of usage": {err: errors.Join(errors.New("x"), Usagef("y")), want: ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(tc.err); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	writeConfig(t, config, "https://127.0.0.1:1")
	cases := map[string]struct {
		err  error
		want string
	}{
		"what was wrong":        {err: errors.New("creating the Run: no"), want: "krt: creating the Run: no"},
		"what to do":            {err: fmt.Errorf("x: %w", WithHint(errors.New("y"), "do %s", "z")), want: "krt: x: y\nhint: do z"},
		"where it was tried":    {err: fmt.Errorf("listing Runs: %w", refused()), want: "krt: the cluster at https://127.0.0.1:1 could not be reached: dial tcp: connect: connection refused\nhint: is it up? `krt dev status` tells about a local one; --kubeconfig and --context choose another"},
		"what is not installed": {err: fmt.Errorf("listing Runs: %w", notServed()), want: "krt: kruntimes is not installed in this cluster: it does not know Runs and Runtimes\nhint: install it, choose another cluster with --context, or start a local one with `krt dev up`"},
		"a group that is not enabled": {err: fmt.Errorf("listing: %w", apierrors.NewGenericServerResponse(404, "get",
			schema.GroupResource{Group: "workflows.kruntimes.io", Resource: "workflowruns"}, "", "404 page not found", 0, true)),
			want: "krt: group workflows is not enabled in this cluster: it does not know workflowruns.workflows.kruntimes.io\nhint: ask whoever installed kruntimes to enable the group, or choose another cluster with --context"},
		"who is not known": {err: apierrors.NewUnauthorized("token expired"), want: "krt: the cluster does not accept the credentials: token expired\nhint: log in again, or choose another user or context with --user or --context"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := NewFactory(genericiooptions.NewTestIOStreamsDiscard(), time.Now)
			*f.ConfigFlags.KubeConfig = config
			if diff := cmp.Diff(tc.want, Explain(f, tc.err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func writeConfig(t *testing.T, file, server string) {
	t.Helper()
	text := strings.ReplaceAll(`apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "SERVER"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
`, "SERVER", server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	good, dev, bad := filepath.Join(dir, "good"), filepath.Join(dir, "dev"), filepath.Join(dir, "bad")
	writeConfig(t, good, "https://good:1")
	writeConfig(t, dev, "https://dev:1")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		env, kubeconfig, context, server string
		fallback                         func() (string, bool)
		want                             string
		wantErr                          string
	}{
		"the environment":               {env: good, want: "https://good:1"},
		"the flag wins":                 {env: dev, kubeconfig: good, want: "https://good:1"},
		"a server by flag":              {server: "https://flag:1", want: "https://flag:1"},
		"none":                          {wantErr: "no cluster is configured: found no kubeconfig file and no --server"},
		"none, but a dev cluster":       {fallback: func() (string, bool) { return dev, true }, want: "https://dev:1"},
		"none, and no dev cluster":      {fallback: func() (string, bool) { return "", false }, wantErr: "no cluster is configured: found no kubeconfig file and no --server"},
		"one wins over the dev cluster": {env: good, fallback: func() (string, bool) { return dev, true }, want: "https://good:1"},
		"none, but one that starts":     {fallback: func() (string, bool) { return "", true }, wantErr: "no cluster is configured, and the local one is only starting"},
		"a variable that names no file": {env: dir + "/nope", fallback: func() (string, bool) { return dev, true }, wantErr: "the kubeconfig " + dir + "/nope, named by $KUBECONFIG, does not exist or is empty"},
		"a variable and a flag":         {env: dir + "/nope", server: "https://flag:1", want: "https://flag:1"},
		"a file that does not exist":    {kubeconfig: dir + "/nope", wantErr: "the kubeconfig " + dir + "/nope does not exist"},
		"a context that is not there":   {env: good, context: "there", wantErr: `the kubeconfig has no context "there"`},
		"a file that is none":           {kubeconfig: garbage, wantErr: "the kubeconfig cannot be used: error loading config file \"" + garbage + "\": it holds a string where a kubeconfig has something else"},
		"a file that is broken":         {kubeconfig: bad, wantErr: "the kubeconfig cannot be used: error loading config file \"" + bad + "\": yaml: line 1: did not find expected node content"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.env)
			t.Setenv("HOME", dir)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			f := NewFactory(genericiooptions.NewTestIOStreamsDiscard(), time.Now)
			f.Fallback = tc.fallback
			*f.ConfigFlags.KubeConfig, *f.ConfigFlags.Context, *f.ConfigFlags.APIServer = tc.kubeconfig, tc.context, tc.server
			config, err := f.RESTConfig()
			got, gotErr := "", ""
			if err != nil {
				gotErr = err.Error()
				if code := ExitCode(err); code != ExitUnreachable {
					t.Errorf("exit code %d, want %d", code, ExitUnreachable)
				}
			} else {
				got = config.Host
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{got, gotErr}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseTargets(t *testing.T) {
	run, runtime := KindRun, KindRuntime
	cases := map[string]struct {
		args    []string
		want    []Target
		wantErr string
	}{
		"a kind":            {args: []string{"runs"}, want: []Target{{Kind: run}}},
		"two kinds":         {args: []string{"Runtime,run"}, want: []Target{{Kind: runtime}, {Kind: run}}},
		"names":             {args: []string{"run", "a", "b"}, want: []Target{{run, "a"}, {run, "b"}}},
		"pairs":             {args: []string{"run/a", "runtimes.kruntimes.io/b"}, want: []Target{{run, "a"}, {runtime, "b"}}},
		"a pair of nothing": {args: []string{"run/"}, wantErr: `"run/": write either KIND NAME... or KIND/NAME..., not both`},
		"an unknown kind":   {args: []string{"wf/a"}, wantErr: `there is no kind "wf"`},
		"both ways":         {args: []string{"run", "run/a"}, wantErr: `"run/a": write either KIND NAME... or KIND/NAME..., not both`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTargets(tc.args)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRuns(t *testing.T) {
	cases := map[string]struct {
		args    []string
		want    []string
		wantErr string
	}{
		"names":                   {args: []string{"a", "b", "a"}, want: []string{"a", "b"}},
		"names after the kind":    {args: []string{"run", "a"}, want: []string{"a"}},
		"a Run that is named run": {args: []string{"run"}, want: []string{"run"}},
		"pairs":                   {args: []string{"run/a", "runs/b"}, want: []string{"a", "b"}},
		"no name":                 {wantErr: "which Run?"},
		"something else":          {args: []string{"runtime/a"}, wantErr: `"runtime/a" is not a Run: write NAME or run/NAME`},
		"a pair of nothing":       {args: []string{"run/"}, wantErr: "the name of a Run must not be empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRuns(tc.args)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"a short text":       {text: "a b\n", limit: 9, want: "a b"},
		"several lines":      {text: "a\nb\tc", limit: 9, want: `a\nb\tc`},
		"a long text":        {text: "äöü äöü", limit: 4, want: "äöü…"},
		"control characters": {text: "\x1b[31mred\u009b", limit: 20, want: `\x1b[31mred\u009b`},
		"no text":            {limit: 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, OneLine(tc.text, tc.limit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRowShowsEmptyCells(t *testing.T) {
	var out bytes.Buffer
	Row(&out, "a", "", "c")
	if diff := cmp.Diff("a\t-\tc\n", out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInterrupts(t *testing.T) {
	t.Run("the first ends the command, the second the program", func(t *testing.T) {
		ctx, i := NewInterrupts(t.Context())
		if !i.Notify(os.Interrupt) || ctx.Err() == nil || !i.Seen() || i.Notify(os.Interrupt) {
			t.Error("the first interrupt must cancel, the second be refused")
		}
	})
	t.Run("a command that claims them gets them all", func(t *testing.T) {
		ctx, i := NewInterrupts(t.Context())
		claimed := i.Claim()
		for range 5 {
			if !i.Notify(os.Interrupt) {
				t.Error("a claimed interrupt was refused")
			}
		}
		if len(claimed) != 2 || ctx.Err() != nil || i.Seen() {
			t.Errorf("%d interrupts delivered, context %v", len(claimed), ctx.Err())
		}
	})
}

func TestWithoutStatus(t *testing.T) {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1alpha1.RunSpec{Runtime: "bash"}}
	got, err := WithoutStatus(run)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"runtime": "bash", "mode": map[string]any{}}}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRowHoldsItsLine(t *testing.T) {
	var out bytes.Buffer
	cells := []string{"a\x1b[31m", "", "b\tc\nd", "  e"}
	Row(&out, cells...)
	if diff := cmp.Diff("a\\x1b[31m\t-\tb\\tc\\nd\t  e\n", out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if cells[1] != "" {
		t.Error("the caller's cells were changed")
	}
}
