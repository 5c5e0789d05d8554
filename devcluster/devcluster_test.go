package devcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/config"
)

func TestDefaultStateDir(t *testing.T) {
	cases := map[string]struct {
		environ []string
		want    string
		wantErr string
	}{
		"below the home directory": {environ: []string{"HOME=/home/a"}, want: "/home/a/.local/state/kruntimes/dev"},
		"where XDG says":           {environ: []string{"HOME=/home/a", "XDG_STATE_HOME=/state"}, want: "/state/kruntimes/dev"},
		"a relative XDG directory does not count, as its specification says": {
			environ: []string{"HOME=/home/a", "XDG_STATE_HOME=state"}, want: "/home/a/.local/state/kruntimes/dev",
		},
		"nothing to go by": {wantErr: "finding a directory for state: neither XDG_STATE_HOME nor HOME is set"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DefaultStateDir(tc.environ)
			if got != tc.want || errorText(err) != tc.wantErr {
				t.Errorf("DefaultStateDir() = %q, %v; want %q, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestStateIsThatOfTheHolderOfTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dev")
	if _, err := ReadState(dir); !errors.Is(err, ErrNotRunning) {
		t.Fatalf("without a directory: %v, want %v", err, ErrNotRunning)
	}
	release, err := takeStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := State{PID: 42, Phase: Ready, Parts: []Part{{Name: "etcd", PID: 43}}}
	if err := writeStateFile(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	var running *RunningError
	if _, err := takeStateDir(dir); !errors.As(err, &running) || running.State.PID != 42 {
		t.Errorf("a second holder: %v, want a RunningError of pid 42", err)
	}
	release()
	if _, err := ReadState(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a file whose writer is gone: %v, want %v", err, ErrNotRunning)
	}
	again, err := takeStateDir(dir)
	if err != nil {
		t.Fatalf("taking over after the end: %v", err)
	}
	again()
}

func TestPrepareStateDirStartsEmpty(t *testing.T) {
	state := t.TempDir()
	sockets, err := makeSocketDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"etcd/member", "pods/uid/v/data", "logs/etcd.log", "kubeconfig"} {
		if err := os.MkdirAll(filepath.Join(state, filepath.Dir(left)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, left), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeStateFile(state, State{Sockets: sockets}); err != nil {
		t.Fatal(err)
	}
	d, err := prepareStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.clean() })
	var left []string
	for _, dir := range []string{state, d.pods()} {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
			if !entry.IsDir() && entry.Name() != ownerName {
				left = append(left, path)
			}
			return nil
		})
	}
	if len(left) > 0 {
		t.Errorf("left of the previous cluster: %v", left)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the previous cluster's other directory is left: %v", err)
	}
}

func TestSocketsHaveShortNames(t *testing.T) {
	state := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := prepareStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	// The longest socket that is ever made: that of runtimed in the directory of a Pod.
	socket := filepath.Join(d.pods(), "01234567-89ab", "v", "kruntimes-socket", "runtimed.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatalf("listening on a name of %d bytes: %v", len(socket), err)
	}
	_ = listener.Close()
	if err := d.clean(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.sockets); !os.IsNotExist(err) {
		t.Errorf("directory %s is left: %v", d.sockets, err)
	}
}

func TestLongestStateDirThatHoldsItsOwnSocketsFits(t *testing.T) {
	const limit = 107 // of a unix socket's name on Linux
	longest := maxSocketDir + len("/pods/01234567-89ab/v/kruntimes-socket/runtimed.sock")
	if longest > limit {
		t.Errorf("a state directory of %d bytes gives sockets of %d, and %d are allowed", maxSocketDir, longest, limit)
	}
}

func TestChoosePort(t *testing.T) {
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port
	if _, err := choosePort(taken); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("port %d cannot be used", taken)) {
		t.Errorf("a port that is taken: %v", err)
	}
	if port, err := choosePort(0); err != nil || port == 0 || port == taken {
		t.Errorf("any port: %d, %v", port, err)
	}
}

func TestMissingProgramsAreAllNamed(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := checkExecutables(map[string]string{"krt": filepath.Join(dir, "krt"), "runtimed": plain})
	want := fmt.Sprintf("krt is missing: stat %s/krt: no such file or directory\nruntimed at %s is not executable", dir, plain)
	if diff := cmp.Diff(want, errorText(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestWavesPutKindsFirst(t *testing.T) {
	manifests, err := config.Render(config.OverlayDev)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := config.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	var kinds [3][]string
	for i, wave := range waves(objects) {
		for _, object := range wave {
			if !slices.Contains(kinds[i], object.GetKind()) {
				kinds[i] = append(kinds[i], object.GetKind())
			}
		}
	}
	if diff := cmp.Diff([]string{"CustomResourceDefinition"}, kinds[0]); diff != "" {
		t.Errorf("first wave (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Namespace"}, kinds[1]); diff != "" {
		t.Errorf("second wave (-want +got):\n%s", diff)
	}
	if slices.Contains(kinds[2], "CustomResourceDefinition") || !slices.Contains(kinds[2], "ClusterRole") {
		t.Errorf("third wave: %v", kinds[2])
	}
}

func TestPartsListenOnTheLoopbackInterfaceOnly(t *testing.T) {
	d := dirs{state: "/state", sockets: "/state"}
	for name, args := range map[string][]string{
		PartEtcd: d.etcdCommand("etcd").Args, PartAPIServer: d.apiServerCommand("kube-apiserver", 6443).Args,
		PartControllerManager: d.controllerManagerCommand("kube-controller-manager").Args,
	} {
		for _, argument := range args {
			flag, value, _ := strings.Cut(argument, "=")
			local := strings.HasPrefix(value, "unix://") || value == loopback || value == "0"
			if listens := strings.HasPrefix(flag, "--listen") || flag == "--bind-address" ||
				flag == "--secure-port" && name == PartControllerManager; listens && !local {
				t.Errorf("%s listens with %s", name, argument)
			}
		}
	}
}
