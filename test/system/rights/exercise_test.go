package rights

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/groups"
	controlplane "kruntimes.io/kruntimes/manager"
	placement "kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/telemetry/endpoint"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const (
	namespace = "rights"
	// patience bounds every wait of this package. It is generous: the machine may be busy with other suites.
	patience = 2 * time.Minute
)

var (
	//go:embed testdata/runtimes.yaml
	runtimes string
	//go:embed testdata/work.yaml
	work string
)

// exercise lets the components do all that they can do.
func exercise(t *testing.T) {
	t.Helper()
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	create(t, runtimes)
	until(t, "the Runtimes to be ready", "Runtime", "sh", func(o object) bool { return o.number("status", "readyReplicas") == 2 })
	create(t, work)
	executions(t)
	waiting(t)
	workspaces(t)
	losses(t)
	breaking(t)
	scaling(t)
	cleaningUp(t)
	leading(t)
}

// executions are Runs and WorkflowRuns that end, are tried again, are cancelled, and are deleted after their time to live.
func executions(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ok", "called"} {
		kind := map[string]string{"ok": "Run", "called": "WorkflowRun"}[name]
		until(t, name+" to succeed", kind, name, func(o object) bool { return o.text("status", "phase") == "Succeeded" })
	}
	until(t, "the Run to fail twice", "Run", "fails", func(o object) bool {
		return o.text("status", "phase") == "Failed" && o.number("status", "attempt") == 2
	})
	until(t, "the Workflow to be refused", "Workflow", "unresolved", func(o object) bool { return o.condition("Ready") == "False" })
	until(t, "the Action to be judged", "Action", "greet", func(o object) bool { return o.condition("Ready") == "True" })
	until(t, "the store to be judged", "Runtime", "sh", func(o object) bool { return o.condition("ArtifactStoreReady") == "True" })
	gone(t, "Run", "leaves")
	gone(t, "WorkflowRun", "leaves")
	until(t, "the Run of the job to execute", "Run", "broken-job-sleep", func(o object) bool { return o.text("status", "phase") == "Running" })
	remove(t, "Run", "broken-job-sleep")
	until(t, "the WorkflowRun to miss its Run", "WorkflowRun", "broken", func(o object) bool { return o.text("status", "phase") == "Failed" })
	until(t, "the called WorkflowRun to run", "WorkflowRun", "cancelled-call-calls", func(o object) bool { return o.text("status", "phase") == "Running" })
	until(t, "the job to run", "Run", "cancelled-job-sleep", func(o object) bool { return o.text("status", "phase") == "Running" })
	patch(t, "WorkflowRun", "cancelled", `{"spec":{"cancelRequested":true}}`)
	until(t, "the WorkflowRun to be cancelled", "WorkflowRun", "cancelled", func(o object) bool { return o.text("status", "phase") == "Cancelled" })
}

// waiting makes a Run wait for the same reason twice, and cancels it then.
func waiting(t *testing.T) {
	t.Helper()
	waits := func(reason string) {
		until(t, "the Run to wait because of "+reason, "Run", "waits", func(o object) bool { return o.reason("Scheduled") == reason })
	}
	waits("RuntimeNotFound")
	create(t, "{apiVersion: kruntimes.io/v1alpha1, kind: Runtime, metadata: {name: late}, spec: {replicas: 0, template: {spec: {containers: [{name: runtime, image: x}]}}}}")
	until(t, "the Run to wait for another reason", "Run", "waits", func(o object) bool { return o.reason("Scheduled") != "RuntimeNotFound" })
	remove(t, "Runtime", "late")
	waits("RuntimeNotFound")
	counted(t, "RuntimeNotFound")
	patch(t, "Run", "waits", `{"spec":{"cancelRequested":true}}`)
	until(t, "the Run to be cancelled", "Run", "waits", func(o object) bool { return o.text("status", "phase") == "Cancelled" })
}

// losses takes the Pod from under a Run.
func losses(t *testing.T) {
	t.Helper()
	var pod string
	until(t, "the Run to execute", "Run", "lost", func(o object) bool {
		pod = o.text("status", "assignedPod")
		return o.text("status", "phase") == "Running"
	})
	lost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}}
	if err := admin.Delete(t.Context(), lost, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	until(t, "the Run to be lost", "Run", "lost", func(o object) bool { return o.text("status", "reason") == "RuntimePodLost" })
	until(t, "another Pod", "Runtime", "sh", func(o object) bool { return o.number("status", "readyReplicas") == 2 })
}

// workspaces live and end in all ways: by their Pod, without one, and after their time to live. A user executes in one.
func workspaces(t *testing.T) {
	t.Helper()
	bound := func(o object) bool { return o.text("status", "phase") == "Bound" }
	until(t, "the workspace to be bound", "PersistentWorkspace", "bound", bound)
	for _, role := range []string{"kruntimes-edit", config.WorkspaceUserClusterRole} {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}}}
		if err := admin.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	cfg := dev.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	jane := cluster.Client(t, cfg)
	eventually(t, "jane to be allowed", func() (bool, error) {
		run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "used"}, Spec: corev1alpha1.RunSpec{
			Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}, Workspace: &corev1alpha1.WorkspaceReference{Name: "bound"}}}
		err := jane.Create(t.Context(), run)
		return err == nil, err
	})
	until(t, "the Run in the workspace to succeed", "Run", "used", func(o object) bool { return o.text("status", "phase") == "Succeeded" })
	remove(t, "PersistentWorkspace", "bound")
	gone(t, "PersistentWorkspace", "bound")
	gone(t, "PersistentWorkspace", "short-lived")
	remove(t, "PersistentWorkspace", "unbound")
	gone(t, "PersistentWorkspace", "unbound")
}

// breaking takes away twice what a Workflow calls, so that the same is told of it twice.
func breaking(t *testing.T) {
	t.Helper()
	for _, again := range []bool{true, false} {
		remove(t, "Action", "greet")
		until(t, "the Workflow to break", "Workflow", "build", func(o object) bool { return o.condition("Ready") == "False" })
		if again {
			create(t, "{apiVersion: workflows.kruntimes.io/v1alpha1, kind: Action, metadata: {name: greet}, spec: {steps: [{name: say, run: echo hello}]}}")
			until(t, "the Workflow to work again", "Workflow", "build", func(o object) bool { return o.condition("Ready") == "True" })
		}
	}
	counted(t, "Unresolved")
}

// scaling takes the Pods of a Runtime away, while a Run executes in one of them.
func scaling(t *testing.T) {
	t.Helper()
	create(t, "{apiVersion: kruntimes.io/v1alpha1, kind: Run, metadata: {name: busy}, spec: {runtime: sh, source: {inline: sleep 600}}}")
	until(t, "the Run to execute", "Run", "busy", func(o object) bool { return o.text("status", "phase") == "Running" })
	for _, replicas := range []int64{1, 0} {
		if replicas == 0 {
			patch(t, "Run", "busy", `{"spec":{"cancelRequested":true}}`)
		}
		patch(t, "Runtime", "sh", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		until(t, fmt.Sprintf("%d Pods", replicas), "Runtime", "sh", func(o object) bool {
			return o.number("status", "readyReplicas") == replicas && o.number("status", "replicas") == replicas
		})
	}
}

// cleaningUp deletes one Runtime by itself, and another with the namespace, to which the manager tells the end of its Pod.
func cleaningUp(t *testing.T) {
	t.Helper()
	remove(t, "Runtime", "sh")
	gone(t, "Runtime", "sh")
	eventually(t, "the account of the Runtime to go with its Pods", func() (bool, error) {
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "runtime-sh"}, &corev1.ServiceAccount{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	create(t, "{apiVersion: kruntimes.io/v1alpha1, kind: Runtime, metadata: {name: last}, spec: {template: {spec: {containers: [{name: runtime, image: x}]}}}}")
	until(t, "the last Runtime to be ready", "Runtime", "last", func(o object) bool { return o.number("status", "readyReplicas") == 1 })
	if err := admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to go", func() (bool, error) {
		err := admin.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// leading starts a second manager and a second scheduler as an installation does, with leader election and metrics, and reads
// their metrics. There is nothing left for them to do.
func leading(t *testing.T) {
	t.Helper()
	lead := map[string]func(ctx context.Context, api *rest.Config, metrics endpoint.Options) error{
		config.ManagerServiceAccount: func(ctx context.Context, api *rest.Config, metrics endpoint.Options) error {
			return controlplane.Run(ctx, controlplane.Options{Config: api, Groups: []string{groups.Core}, NodeImage: "x", Metrics: metrics,
				LeaderElection: true, LeaderElectionNamespace: config.Namespace})
		},
		config.SchedulerServiceAccount: func(ctx context.Context, api *rest.Config, metrics endpoint.Options) error {
			return placement.Run(ctx, placement.Options{Config: api, Metrics: metrics, LeaderElection: true, LeaderElectionNamespace: config.Namespace})
		},
	}
	reader := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kruntimes-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "default"}}}
	if err := admin.Create(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	for account, run := range lead {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		done := make(chan error, 1)
		go func() { done <- run(ctx, tokenOf(t, config.Namespace, account), endpoint.Options{Address: address}) }()
		token := tokenOf(t, metav1.NamespaceDefault, "default").BearerToken
		eventually(t, account+" to tell its metrics", func() (bool, error) {
			code, metrics, err := cluster.Scrape(t.Context(), "https://"+address+"/metrics", token)
			leads := strings.Contains(metrics, `leader_election_master_status{name="`+account+`"} 1`)
			return code == 200 && leads, err
		})
		eventually(t, account+" to hold its Lease for a while", func() (bool, error) {
			lease := &coordinationv1.Lease{}
			err := admin.Get(t.Context(), client.ObjectKey{Namespace: config.Namespace, Name: account}, lease)
			held := err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time)
			return held, client.IgnoreNotFound(err)
		})
		expectOwnedLease(t, account)
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with %v", account, err)
		}
	}
}

// tokenOf returns the configuration of a ServiceAccount.
func tokenOf(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(dev.Config())
	cfg.BearerToken, cfg.QPS = request.Status.Token, -1
	return cfg
}

// counted waits until something was told a second time.
func counted(t *testing.T, reason string) {
	t.Helper()
	eventually(t, "the event "+reason+" to be counted", func() (bool, error) {
		var events eventsv1.EventList
		if err := admin.List(t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Reason == reason && e.Series != nil {
				return true, nil
			}
		}
		return false, nil
	})
}

// object is one of our kinds.
type object struct{ *unstructured.Unstructured }

func (o object) text(path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

func (o object) number(path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

func (o object) ofCondition(kind, field string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			s, _ := c[field].(string)
			return s
		}
	}
	return ""
}

func (o object) condition(kind string) string { return o.ofCondition(kind, "status") }
func (o object) reason(kind string) string    { return o.ofCondition(kind, "reason") }

// named makes an object of one of our kinds.
func named(kind, name string) object {
	group := map[string]string{"PersistentWorkspace": "workspaces.kruntimes.io", "Workflow": "workflows.kruntimes.io",
		"WorkflowRun": "workflows.kruntimes.io", "Action": "workflows.kruntimes.io"}[kind]
	if group == "" {
		group = "kruntimes.io"
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: kind})
	u.SetNamespace(namespace)
	u.SetName(name)
	return object{u}
}

func create(t *testing.T, manifests string) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); err != nil {
			return
		}
		u.SetNamespace(namespace)
		if err := admin.Create(t.Context(), u, client.FieldValidation("Strict")); err != nil {
			t.Fatalf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

func patch(t *testing.T, kind, name, text string) {
	t.Helper()
	if err := admin.Patch(t.Context(), named(kind, name).Unstructured, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		t.Fatalf("patching %s %s: %v", kind, name, err)
	}
}

func remove(t *testing.T, kind, name string) {
	t.Helper()
	if err := admin.Delete(t.Context(), named(kind, name).Unstructured); err != nil {
		t.Fatalf("deleting %s %s: %v", kind, name, err)
	}
}

func gone(t *testing.T, kind, name string) {
	t.Helper()
	eventually(t, kind+" "+name+" to be gone", func() (bool, error) {
		u := named(kind, name).Unstructured
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(u), u)
		if err == nil {
			err = fmt.Errorf("it is there: %v", u.Object["status"])
			return false, err
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// until waits until an object is as it is meant to be.
func until(t *testing.T, what, kind, name string, holds func(object) bool) {
	t.Helper()
	eventually(t, what, func() (bool, error) {
		o := named(kind, name)
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o.Unstructured); err != nil {
			return false, err
		}
		return holds(o), fmt.Errorf("status: %v", o.Object["status"])
	})
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
		t.Fatalf("waiting for %s: %v; %v", what, err, last)
	}
}
