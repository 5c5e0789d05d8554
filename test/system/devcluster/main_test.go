// Package devcluster tests the dev cluster itself: its parts, its stand-in for the kubelet, and krt dev.
package devcluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/devcluster/controlplane"
	"kruntimes.io/kruntimes/test/programs"
)

// patience bounds every wait of this package. It is generous: the machine may be busy with other suites.
const patience = 120 * time.Second

// secretVariable stands for what a developer has in the environment and no Pod should see.
const secretVariable = "KRUNTIMES_TEST_SECRET"

// helperVariable makes the test binary serve as a program in a Pod.
const helperVariable = "KRUNTIMES_TEST_HELPER"

var (
	cluster *devcluster.Cluster
	api     kubernetes.Interface
	// krtBinary is the program under test, assets the binaries of the control plane. Every user can reach them.
	krtBinary, assets string
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if address := os.Getenv(helperVariable); address != "" {
		serveHelper(os.Args[1])
	}
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// serveHelper answers HTTP at address: /readyz fails as long as there is a file "unready" in the working directory.
func serveHelper(address string) {
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat("unready"); err == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	fmt.Println("serving", address)
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	os.Exit(1)
}

func withCluster(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "krt-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return 1, err
	}
	if err := provide(dir); err != nil {
		return 1, err
	}
	cluster, err = devcluster.Start(context.Background(), devcluster.Options{
		StateDir: filepath.Join(dir, "s"), Progress: os.Stderr, WithoutProduct: true,
		Environ:  append(os.Environ(), secretVariable+"=hunter2"),
		Binaries: devcluster.Binaries{ControlPlane: assets, Kubelet: []string{krtBinary, "dev", "kubelet"}},
	})
	if err != nil {
		return 1, fmt.Errorf("starting the dev cluster: %w", err)
	}
	defer cluster.Stop()
	if api, err = kubernetes.NewForConfig(cluster.Config()); err != nil {
		return 1, err
	}
	return run(), nil
}

// provide builds krt and puts the control plane where every user can read it.
func provide(dir string) error {
	krtBinary, assets = filepath.Join(dir, "krt"), filepath.Join(dir, "controlplane")
	bin, err := programs.In(dir, programs.Krt)
	if err != nil {
		return err
	}
	if bin != dir { // Here it has neighbours of our choice, and everybody can read it.
		if err := linkOrCopy(filepath.Join(bin, programs.Krt), krtBinary); err != nil {
			return err
		}
	}
	for _, name := range []string{"runtimed", "runtime-server"} { // never run here, only looked for
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			return err
		}
	}
	source, err := controlplane.Ensure(context.Background(), controlplane.EnsureOptions{Progress: os.Stderr, Environ: os.Environ()})
	if err != nil {
		return err
	}
	if err := os.Mkdir(assets, 0o755); err != nil {
		return err
	}
	for _, binary := range controlplane.All() {
		if err := linkOrCopy(filepath.Join(source, string(binary)), filepath.Join(assets, string(binary))); err != nil {
			return err
		}
	}
	return nil
}

func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w\n%s", from, err, out)
	}
	return nil
}

// eventually waits until check returns nothing, and fails with what it said last.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		case <-tick.C:
		}
	}
}

// processesOf returns the processes that have word on their command line or in their environment, but not this one.
func processesOf(t *testing.T, word string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		environ, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if bytes.Contains(line, []byte(word)) || bytes.Contains(environ, []byte(word)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// noProcessesOf waits until no process has word on its command line or in its environment.
func noProcessesOf(t *testing.T, word string) {
	t.Helper()
	eventually(t, "no process is left", func() error {
		if pids := processesOf(t, word); len(pids) > 0 {
			return fmt.Errorf("there are %v", pids)
		}
		return nil
	})
}

// takePort listens on a port of the loopback interface until the test ends.
func takePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// lastLine returns the last line of text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// clientFor returns a client for the core group of the cluster that a kubeconfig leads to.
func clientFor(t *testing.T, kubeconfig string) rest.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}
