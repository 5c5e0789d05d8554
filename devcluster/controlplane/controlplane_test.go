package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeGo stands in for the Go command: it notes each call and writes the file that is asked for with -o.
const fakeGo = `#!/bin/sh
echo call >>"$FAKE_GO_CALLS"
while [ "$1" != -o ]; do shift; done
%s
echo built >"$2"
chmod +x "$2"
`

type fixture struct {
	options EnsureOptions
	calls   string
}

func newFixture(t *testing.T, goScript string) *fixture {
	t.Helper()
	bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	if goScript != "" {
		writeExecutable(t, filepath.Join(bin, "go"), goScript)
	}
	return &fixture{calls: calls, options: EnsureOptions{
		CacheDir: t.TempDir(),
		Environ:  []string{"PATH=" + bin + ":/usr/bin:/bin", "FAKE_GO_CALLS=" + calls},
	}}
}

func writeExecutable(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) callCount(t *testing.T) int {
	t.Helper()
	content, err := os.ReadFile(f.calls)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(content), "call\n")
}

func TestEnsureTakesTheAssetsOfTheUser(t *testing.T) {
	cases := map[string]struct {
		present []Binary
		asked   []Binary
		wantErr string
	}{
		"all three are there": {present: All()},
		"envtest asks for two and the third may be missing": {
			present: []Binary{Etcd, APIServer}, asked: []Binary{Etcd, APIServer},
		},
		"what is missing is named": {
			present: []Binary{APIServer},
			wantErr: "KUBEBUILDER_ASSETS=%s holds no executable etcd, kube-controller-manager: " +
				"put it there, or unset KUBEBUILDER_ASSETS to have it built from the pinned modules",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, b := range tc.present {
				writeExecutable(t, filepath.Join(dir, string(b)), "")
			}
			f := newFixture(t, fmt.Sprintf(fakeGo, ""))
			f.options.Environ = append(f.options.Environ, AssetsVariable+"="+dir)
			f.options.Binaries = tc.asked
			got, err := Ensure(t.Context(), f.options)
			if tc.wantErr != "" {
				if diff := cmp.Diff(fmt.Sprintf(tc.wantErr, dir), fmt.Sprint(err)); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				return
			}
			if err != nil || got != dir {
				t.Errorf("Ensure() = %q, %v; want %q", got, err, dir)
			}
			if n := f.callCount(t); n != 0 {
				t.Errorf("the Go command was called %d times", n)
			}
		})
	}
}

func TestEnsurePathsBuildsWhatTheAssetsLack(t *testing.T) {
	assets := t.TempDir()
	writeExecutable(t, filepath.Join(assets, string(APIServer)), "")
	f := newFixture(t, fmt.Sprintf(fakeGo, ""))
	f.options.Environ = append(f.options.Environ, AssetsVariable+"="+assets)
	f.options.Binaries = []Binary{APIServer, Kubelet}
	got, err := EnsurePaths(t.Context(), f.options)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Binary]string{
		APIServer: filepath.Join(assets, "kube-apiserver"),
		Kubelet:   filepath.Join(f.options.CacheDir, pinsHash(), "kubelet"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if n := f.callCount(t); n != 1 {
		t.Errorf("the Go command was called %d times, want 1", n)
	}
}

func TestEveryProgramIsBuiltFromThePins(t *testing.T) {
	for _, b := range append(All(), Node()...) {
		pkg, err := packageOf(b)
		if err != nil || !strings.HasSuffix(pkg, "/"+string(b)) && b != Etcd {
			t.Errorf("packageOf(%s) = %q, %v", b, pkg, err)
		}
	}
}

func TestEnsureBuildsOnce(t *testing.T) {
	f := newFixture(t, fmt.Sprintf(fakeGo, "sleep 0.1"))
	var (
		group sync.WaitGroup
		dirs  [3]string
		errs  [3]error
	)
	for i := range dirs {
		group.Go(func() { dirs[i], errs[i] = Ensure(t.Context(), f.options) })
	}
	group.Wait()
	want := filepath.Join(f.options.CacheDir, pinsHash())
	for i := range dirs {
		if errs[i] != nil || dirs[i] != want {
			t.Fatalf("caller %d: Ensure() = %q, %v; want %q", i, dirs[i], errs[i], want)
		}
	}
	if n := f.callCount(t); n != len(All()) {
		t.Errorf("the Go command was called %d times, want once for each of %d programs", n, len(All()))
	}
	if lacking := missing(want, All()); len(lacking) > 0 {
		t.Errorf("missing after the build: %v", lacking)
	}
	assertNoLeftovers(t, f)
}

func TestEnsureBuildsOnlyWhatIsMissing(t *testing.T) {
	f := newFixture(t, fmt.Sprintf(fakeGo, ""))
	f.options.Binaries = []Binary{Etcd, APIServer}
	for range 2 {
		if _, err := Ensure(t.Context(), f.options); err != nil {
			t.Fatal(err)
		}
	}
	f.options.Binaries = nil
	if _, err := Ensure(t.Context(), f.options); err != nil {
		t.Fatal(err)
	}
	if n := f.callCount(t); n != 3 {
		t.Errorf("the Go command was called %d times, want 3", n)
	}
}

func TestEnsureWithoutGoSaysWhatToDo(t *testing.T) {
	f := newFixture(t, "")
	f.options.Environ = []string{"PATH=" + t.TempDir()}
	_, err := Ensure(t.Context(), f.options)
	want := "building the control plane needs the Go command, and there is none on PATH: install Go (https://go.dev/dl), " +
		"or set KUBEBUILDER_ASSETS to a directory that holds etcd, kube-apiserver, kube-controller-manager"
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestEnsureQuotesAFailingBuild(t *testing.T) {
	f := newFixture(t, fmt.Sprintf(fakeGo, "echo no space left >&2; exit 1"))
	_, err := Ensure(t.Context(), f.options)
	if diff := cmp.Diff("building etcd: exit status 1\nno space left", fmt.Sprint(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	assertNoLeftovers(t, f)
}

func TestEnsureEndsWhenCancelled(t *testing.T) {
	f := newFixture(t, fmt.Sprintf(fakeGo, `echo "$$" >"$FAKE_GO_CALLS.started"; sleep 600`))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := Ensure(ctx, f.options)
		result <- err
	}()
	waitForFile(t, f.calls+".started")
	cancel()
	select {
	case err := <-result:
		if diff := cmp.Diff("building etcd: context canceled", fmt.Sprint(err)); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Ensure did not return within 10 s of its context's end")
	}
	assertNoLeftovers(t, f)
}

func TestEnsureRemovesWhatAKilledBuildLeft(t *testing.T) {
	f := newFixture(t, fmt.Sprintf(fakeGo, ""))
	left := filepath.Join(f.options.CacheDir, pinsHash()+".building-1")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), f.options); err != nil {
		t.Fatal(err)
	}
	assertNoLeftovers(t, f)
}

func TestEnsureReportsProgress(t *testing.T) {
	f := newFixture(t, fmt.Sprintf(fakeGo, ""))
	var progress bytes.Buffer
	f.options.Progress, f.options.Binaries = &progress, []Binary{Etcd}
	if _, err := Ensure(t.Context(), f.options); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("Building the control plane (Kubernetes v1.37.2) into %s/%s; the first time takes some minutes\n"+
		"[1/1] etcd: building\n[1/1] etcd: done after 0s\n", f.options.CacheDir, pinsHash())
	if diff := cmp.Diff(want, progress.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestBuildEnvironKeepsTheUsersSettingsButNotThoseThatChangeTheBuild(t *testing.T) {
	got := buildEnviron([]string{"HOME=/home/x", "GOFLAGS=-mod=vendor", "GOPROXY=https://proxy.example", "CGO_ENABLED=1"})
	want := []string{"HOME=/home/x", "GOPROXY=https://proxy.example", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func assertNoLeftovers(t *testing.T, f *fixture) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(f.options.CacheDir, "*.building-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("no file %s after 10 s", path)
		case <-tick.C:
		}
	}
}
