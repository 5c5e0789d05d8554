// Package certificates has the real controllers of cert-manager make the certificates of what config/default renders, and
// renews them again and again while the API server asks the manager.
//
// There is no kubelet: the programs run as the rendered Deployments say, with free ports in the place of theirs, and a mount
// follows each Secret as a kubelet does. The API server reaches their Services as they are rendered, through a tunnel.
package certificates

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/process"
	"kruntimes.io/kruntimes/test/envtest/cluster"
	"kruntimes.io/kruntimes/test/programs"
)

const (
	// patience bounds every wait. It is generous: the machine may be busy with other suites.
	patience = cluster.Deadline
	// binaryVariable names the environment variable with the path of the program that runs cert-manager.
	binaryVariable = "KRUNTIMES_CERTMANAGER"
)

// configurations have the API server ask the manager.
var configurations = []string{config.WorkspaceUseWebhooks, config.WorkflowValidityWebhooks}

var (
	shared  *cluster.Cluster
	network *tunnel
	bin     string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctrllog.SetLogger(logr.Discard())
	var (
		configuration string
		err           error
	)
	if network, configuration, err = newTunnel(); err != nil {
		panic(err)
	}
	defer func() { _ = network.close() }()
	if bin, err = os.MkdirTemp("", "kruntimes-bin-"); err != nil {
		panic(err)
	}
	defer func(dir string) { _ = os.RemoveAll(dir) }(bin)
	if bin, err = programs.In(bin, programs.Manager, programs.Scheduler); err != nil {
		panic(err)
	}
	shared = cluster.MustStartBare(map[string]string{"egress-selector-config-file": configuration})
	defer shared.Stop()
	return m.Run()
}

// startCertManager runs cert-manager, which installs its definitions, until the test ends or the process is stopped.
func startCertManager(t *testing.T) *process.Process {
	t.Helper()
	binary := os.Getenv(binaryVariable)
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "bin", "tools", "certmanager")
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("no cert-manager: run \"make certmanager\", or name one in %s: %v", binaryVariable, err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, shared.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	child := start(t, "cert-manager", binary, "--quiet", "--kubeconfig="+kubeconfig)
	await(t, "cert-manager to be ready", func() error {
		if err := child.Err(); err != nil {
			t.Fatalf("cert-manager ended: %v", err)
		}
		if log := process.LogTail(child.log, 5); !strings.Contains(log, "ready") {
			return fmt.Errorf("it says %q", log)
		}
		return nil
	})
	return child.Process
}

// child is a program of a test. One that ends before it is stopped fails the test.
type child struct {
	*process.Process
	log string
}

func start(t *testing.T, name, binary string, args ...string) child {
	t.Helper()
	c := child{log: filepath.Join(t.TempDir(), name+".log")}
	var err error
	if c.Process, err = process.Start(process.Command{Path: binary, Args: args, LogFile: c.log, Env: []string{"PATH=" + os.Getenv("PATH")}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		<-c.Done()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, process.LogTail(c.log, 40))
		}
	})
	return c
}

// await waits until check returns nothing, and fails with what it said last.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
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

// find returns a rendered object.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, u := range objects {
		if u.GetKind() == kind && u.GetName() == name {
			return u
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}
