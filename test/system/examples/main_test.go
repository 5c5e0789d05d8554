// Package examples executes on a whole dev cluster what people copy: examples, samples, and what the documents about workflows
// hold, manifests and commands.
package examples

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/test/programs"
)

const (
	root = "../../.."
	// patience bounds every wait of this package. It is generous: the machine may be busy with other suites.
	patience = 90 * time.Second
)

var (
	admin client.Client
	// kubeconfig leads to the dev cluster, and bin holds the programs of the tree.
	kubeconfig, bin string
)

func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withCluster builds the programs, starts a dev cluster, and calls run.
func withCluster(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "kruntimes-examples-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if bin = filepath.Join(dir, "bin"); os.Mkdir(bin, 0o755) != nil {
		return 1, fmt.Errorf("making %s", bin)
	}
	if bin, err = programs.In(bin, programs.Krt, programs.Runtimed, programs.RuntimeServer); err != nil {
		return 1, err
	}
	cluster, err := devcluster.Start(context.Background(), devcluster.Options{
		StateDir: filepath.Join(dir, "state"), Progress: os.Stderr, Environ: os.Environ(),
		Binaries: devcluster.Binaries{
			Kubelet:  []string{filepath.Join(bin, "krt"), "dev", "kubelet"},
			Runtimed: filepath.Join(bin, "runtimed"), RuntimeServer: filepath.Join(bin, "runtime-server"),
		},
	})
	if err != nil {
		return 1, fmt.Errorf("starting the dev cluster: %w", err)
	}
	defer cluster.Stop()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return 1, err
	}
	if admin, err = client.New(cluster.Config(), client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	kubeconfig = cluster.Kubeconfig()
	return run(), nil
}

// newNamespace makes a namespace, and returns its name and a kubeconfig of which it is the default.
func newNamespace(t *testing.T) (name, kubeconfigOf string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "examples-"}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Contexts {
		c.Namespace = namespace.Name
	}
	kubeconfigOf = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfigOf); err != nil {
		t.Fatal(err)
	}
	return namespace.Name, kubeconfigOf
}
