// Package e2e tests kruntimes as it is installed, on a cluster with real nodes: that of package cluster ("make e2e"), or
// anybody's ("make e2e-test"). README.md tells how to add a test.
//
// The tests are in files with the build tag e2e; this package is what they work with.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/cluster"
)

const (
	// SystemNamespace is where kruntimes is installed.
	SystemNamespace = "kruntimes-system"
	// Deadline is how long Eventually waits at most. It is generous: on a loaded machine all takes several times as long.
	Deadline = 2 * time.Minute
	// pollInterval is how often Eventually looks.
	pollInterval = 100 * time.Millisecond
)

// Env is what one test works with.
type Env struct {
	// Client is the administrator's, without a cache.
	Client client.Client
	// Config is how the administrator reaches the API server.
	Config *rest.Config
	// Namespace is the test's own, under the restricted Pod Security Standard. It is removed at the end of the test.
	Namespace string

	t *testing.T
}

// New makes a namespace for the test. At its end what helps to understand a failure is kept, and the namespace is deleted;
// one that does not go away fails the test.
func New(t *testing.T) *Env {
	t.Helper()
	admin, config := Administrator(t)
	e := &Env{Client: admin, Config: config, t: t}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	e.Namespace = namespace.Name
	t.Cleanup(func() {
		if t.Failed() {
			e.collect()
		}
		e.removeNamespace(namespace)
	})
	return e
}

// Administrator returns a client of the cluster's administrator without a cache, and how it reaches the API server.
func Administrator(t *testing.T) (client.Client, *rest.Config) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", Setting("KUBECONFIG"))
	if err != nil {
		t.Fatalf("the end-to-end suite needs a cluster, named by KUBECONFIG: %v", err)
	}
	config.QPS = -1
	admin, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return admin, config
}

// removeNamespace removes the Runtimes before the namespace: Kubernetes would begin with the Pods five seconds after it was asked to,
// and look at the rest five seconds later.
// It uses a context of its own: that of the test has ended when it is called.
func (e *Env) removeNamespace(namespace *corev1.Namespace) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Deadline)
	defer cancel()
	if err := e.removePods(ctx); err != nil {
		e.t.Errorf("removing the Runtimes of namespace %s: %v", namespace.Name, err)
		e.collect()
	}
	if err := e.Client.Delete(ctx, namespace); err != nil && !apierrors.IsNotFound(err) {
		e.t.Errorf("deleting namespace %s: %v", namespace.Name, err)
		return
	}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(e.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)), nil
	})
	if err != nil {
		e.t.Errorf("namespace %s does not go away: %+v", namespace.Name, namespace.Status.Conditions)
		e.collect()
	}
}

// removePods deletes the Runtimes of the namespace, and the Runs and workspaces that keep their Pods, and waits until no Pod is left.
func (e *Env) removePods(ctx context.Context) error {
	in := client.InNamespace(e.Namespace)
	for _, kind := range []client.Object{&corev1alpha1.Runtime{}, &corev1alpha1.Run{}, &workspacesv1alpha1.PersistentWorkspace{}} {
		if err := e.Client.DeleteAllOf(ctx, kind, in); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("deleting: %w", err)
		}
	}
	var pods corev1.PodList
	err := wait.PollUntilContextTimeout(ctx, pollInterval, Deadline, true, func(ctx context.Context) (bool, error) {
		err := e.Client.List(ctx, &pods, in, client.HasLabels{corev1alpha1.LabelRuntime})
		return err == nil && len(pods.Items) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of %d Pods: %w", len(pods.Items), err)
	}
	return nil
}

// Setting is a variable of the environment, or what "make e2e" would set it to on a machine where the variable is missing.
func Setting(name string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return map[string]string{
		"KUBECTL":      filepath.Join(root(), "bin", "tools", "kubectl"),
		"KRT":          filepath.Join(root(), "bin", "krt"),
		"KUSTOMIZE":    filepath.Join(root(), "bin", "tools", "kustomize"),
		"IMG":          "kruntimes:dev",
		"BASH_IMAGE":   "kruntimes/debian-bash:dev",
		"PYTHON_IMAGE": "kruntimes/python:dev",
	}[name]
}

// ImageEdits are the arguments of "kustomize edit set image" that put the images of IMG in place: IMG says PREFIX:TAG of
// PREFIX/controlplane:TAG and PREFIX/node:TAG. The last colon is that of the tag: hack/e2e-deploy.sh refuses others.
func ImageEdits() []string {
	image := Setting("IMG")
	colon := strings.LastIndex(image, ":")
	prefix, tag := image[:max(colon, 0)], image[colon+1:]
	return []string{"kruntimes/controlplane=" + prefix + "/controlplane:" + tag, "kruntimes/node=" + prefix + "/node:" + tag}
}

// root is the root of the source tree: the nearest directory above the test's package with a go.mod.
var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(fmt.Errorf("looking for the source tree: %w", err))
	}
	for above := ""; dir != above; above, dir = dir, filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	panic("looking for the source tree: there is no go.mod above this directory")
})

// Scheme knows the kinds of Kubernetes and of kruntimes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, corev1alpha1.AddToScheme, workspacesv1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // our own kinds contradict each other
		}
	}
	return scheme
}

// Eventually waits until condition returns "", and fails the test with what it said last when Deadline has passed.
func (e *Env) Eventually(what string, condition func() string) {
	e.t.Helper()
	e.Within(Deadline, what, condition)
}

// Within is Eventually with a deadline of its own.
func (e *Env) Within(limit time.Duration, what string, condition func() string) {
	e.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(e.t.Context(), pollInterval, limit, true, func(context.Context) (bool, error) {
		last = condition()
		return last == "", nil
	})
	if err != nil {
		e.t.Fatalf("%s: not after %s: %s", what, limit, last)
	}
}

// Create creates an object, in the test's namespace unless it names one.
func (e *Env) Create(object client.Object) {
	e.t.Helper()
	if object.GetNamespace() == "" {
		object.SetNamespace(e.Namespace)
	}
	if err := e.Client.Create(e.t.Context(), object); err != nil {
		e.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// Refresh reads an object again.
func (e *Env) Refresh(object client.Object) {
	e.t.Helper()
	if err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		e.t.Fatalf("reading %T %s: %v", object, object.GetName(), err)
	}
}

// As returns a client that acts as a user in these groups. Without rights that a test gives it it may do next to nothing.
func (e *Env) As(user string, groups ...string) client.Client {
	e.t.Helper()
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		e.t.Fatalf("making a client for %s: %v", user, err)
	}
	return c
}

// Grant gives a user a ClusterRole in the test's namespace.
func (e *Env) Grant(user, clusterRole string) {
	e.t.Helper()
	e.Kubectl("create", "rolebinding", strings.ReplaceAll(user+"-"+clusterRole, ":", "-"), "--user="+user, "--clusterrole="+clusterRole)
}

// Cluster is the cluster of package cluster that "make e2e" runs the suite on, with its parts and its processes. On somebody
// else's cluster the test is skipped.
func (e *Env) Cluster() *cluster.Cluster {
	e.t.Helper()
	state := Setting("CLUSTER")
	if state == "" {
		e.t.Skip("needs the parts of the cluster, which are in reach with make e2e only")
	}
	c, err := cluster.New(cluster.Options{State: state})
	if err != nil {
		e.t.Fatalf("looking at the cluster: %v", err)
	}
	if _, err := c.Parts(e.t.Context()); err != nil {
		e.t.Fatal(fmt.Errorf("looking at the cluster: %w", err))
	}
	return c
}
