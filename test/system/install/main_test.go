// Package install tries on whole dev clusters what a platform team does with an installation: enabling only some groups, and taking
// everything away again.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/apiresources"
	deletecmd "k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/patch"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/test/envtest/cluster"
	"kruntimes.io/kruntimes/test/programs"
)

const (
	// asKubectl makes the test's own program be kubectl, as far as scripts of the tree need it.
	asKubectl = "KRUNTIMES_TEST_AS_KUBECTL"
	root      = "../../.."
	// patience bounds every wait of this package. It is generous: the machine may be busy with other suites.
	patience = 2 * time.Minute
)

// bin holds the programs of the tree.
var bin string

func TestMain(m *testing.M) {
	if os.Getenv(asKubectl) != "" {
		if err := kubectl().Execute(); err != nil {
			os.Exit(1)
		}
		return
	}
	code, err := withPrograms(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// kubectl is what its name says, with some of its commands.
func kubectl() *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	factory := cmdutil.NewFactory(flags)
	root := &cobra.Command{Use: "kubectl"}
	flags.AddFlags(root.PersistentFlags())
	root.AddCommand(get.NewCmdGet("kubectl", factory, streams), deletecmd.NewCmdDelete(factory, streams),
		patch.NewCmdPatch(factory, streams), apiresources.NewCmdAPIVersions(flags, streams))
	return root
}

// withPrograms builds the programs, and calls run.
func withPrograms(run func() int) (code int, err error) {
	if bin, err = os.MkdirTemp("", "kruntimes-install-"); err != nil {
		return 1, err
	}
	defer func(dir string) { _ = os.RemoveAll(dir) }(bin)
	if bin, err = programs.In(bin, programs.Krt, programs.Runtimed, programs.RuntimeServer); err != nil {
		return 1, err
	}
	return run(), nil
}

// start runs a dev cluster until the test ends, and returns it with a client that may do everything.
func start(t *testing.T, options devcluster.Options) (*devcluster.Cluster, client.Client) {
	t.Helper()
	options.StateDir, options.Progress, options.Environ = filepath.Join(t.TempDir(), "state"), os.Stderr, os.Environ()
	options.Binaries = devcluster.Binaries{
		Kubelet:  []string{filepath.Join(bin, "krt"), "dev", "kubelet"},
		Runtimed: filepath.Join(bin, "runtimed"), RuntimeServer: filepath.Join(bin, "runtime-server"),
	}
	dev, err := devcluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Stop)
	admin, err := client.New(dev.Config(), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return dev, admin
}

// undeploy runs the script as "make undeploy" does, with what a dev cluster has installed, and returns what it says.
func undeploy(t *testing.T, dev *devcluster.Cluster, groups []string, environ ...string) (said string, err error) {
	t.Helper()
	manifests, err := config.Render(config.DevOverlay(groups))
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", "undeploy.sh"))
	cmd.Stdin = bytes.NewReader(manifests)
	cmd.Env = append(append(os.Environ(), asKubectl+"=true", "KUBECTL="+executable, "KUBECONFIG="+dev.Kubeconfig()), environ...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// krt runs the program as the administrator, and returns what it says.
func krt(t *testing.T, dev *devcluster.Cluster, args ...string) (said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "krt"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+dev.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// eventually calls holds until it returns true; the last error is told when it does not.
func eventually(t *testing.T, what string, holds func() (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (ok bool, _ error) {
		ok, last = holds()
		return ok, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, errors.Join(err, last))
	}
}
