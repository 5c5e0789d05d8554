package devcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/devcluster/controlplane"
)

// busyAPIServer starts the real API server, but on a taken port the first time.
const busyAPIServer = `#!/bin/sh
echo call >>'%[1]s/calls'
if ! [ -e '%[1]s/tried' ]; then
  touch '%[1]s/tried'
  exec '%[2]s' "$@" --secure-port=%[3]d
fi
exec '%[2]s' "$@"
`

func TestPortThatIsTakenInTheLastMomentIsReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, binary := range []controlplane.Binary{controlplane.Etcd, controlplane.ControllerManager} {
		if err := os.Symlink(filepath.Join(assets, string(binary)), filepath.Join(dir, string(binary))); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf(busyAPIServer, dir, filepath.Join(assets, string(controlplane.APIServer)), takePort(t))
	if err := os.WriteFile(filepath.Join(dir, string(controlplane.APIServer)), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	// The name of the state directory is too long for sockets, too.
	state := filepath.Join(t.TempDir(), "a-state-directory-whose-name-is-too-long-for-unix-sockets-below-it")
	c, err := devcluster.Start(t.Context(), devcluster.Options{
		StateDir: state, WithoutProduct: true, Environ: os.Environ(),
		Binaries: devcluster.Binaries{ControlPlane: dir, Kubelet: []string{krtBinary, "dev", "kubelet"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	parts := c.State().Parts
	c.Stop()
	if err := c.Err(); err != nil {
		t.Errorf("after Stop Err() is %v, want none", err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || string(calls) != "call\ncall\n" {
		t.Errorf("the API server was started %q (%v), want twice", calls, err)
	}
	for _, part := range parts {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", part.PID)); err == nil {
			t.Errorf("process %d of %s is still there", part.PID, part.Name)
		}
	}
}
