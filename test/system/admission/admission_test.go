// Package admission asks the manager of a whole dev cluster who may execute in a workspace and what can never work, with
// ClusterRoles that the controllers of Kubernetes have aggregated, and while the manager is killed.
package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/test/programs"
)

// patience bounds every wait. It is generous: the machine may be busy with other suites.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestWorkspacesAreUsedByWhoeverMayUseThem follows a grant from the refusal that asks for it: a namespace's administrator, who
// holds nothing but Kubernetes' own role admin there, binds the role that the message names.
func TestWorkspacesAreUsedByWhoeverMayUseThem(t *testing.T) {
	bin, err := programs.In(t.TempDir(), programs.Krt, programs.Manager, programs.Scheduler, programs.Runtimed, programs.RuntimeServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, separate := range map[string]bool{"with the manager inside the process": false, "with the manager as a process": true} {
		t.Run(name, func(t *testing.T) {
			cluster, err := devcluster.Start(t.Context(), devcluster.Options{
				StateDir: filepath.Join(t.TempDir(), "s"), Environ: os.Environ(), SeparateProcesses: separate,
				Binaries: devcluster.Binaries{
					Kubelet:  []string{filepath.Join(bin, "krt"), "dev", "kubelet"},
					Runtimed: filepath.Join(bin, "runtimed"), RuntimeServer: filepath.Join(bin, "runtime-server"),
					Manager: filepath.Join(bin, "manager"), Scheduler: filepath.Join(bin, "scheduler"),
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Stop()
			s := newScene(t, cluster)
			s.followsAGrant()
			s.hearsEarlyWords()
			if separate {
				s.survivesAKill()
			} else {
				s.guardsNoFiles()
			}
		})
	}
}

// scene is a namespace with a workspace, an administrator, and a ServiceAccount that may create Runs.
type scene struct {
	*testing.T
	cluster   *devcluster.Cluster
	namespace string
	// root may do everything, keeper what ClusterRole admin says, bot what kruntimes-edit says.
	root, keeper, bot client.Client
}

func newScene(t *testing.T, cluster *devcluster.Cluster) *scene {
	t.Helper()
	s := &scene{T: t, cluster: cluster, namespace: "team-a", root: newClient(t, cluster.Config())}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	account := &corev1.ServiceAccount{ObjectMeta: s.named("bot")}
	s.create(account)
	s.create(&workspacesv1alpha1.PersistentWorkspace{ObjectMeta: s.named("ci"), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}})
	s.create(s.binding("keeper", "admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "keeper"}))
	s.create(s.binding("bot", "kruntimes-edit", s.account()))

	keeper := cluster.Config()
	keeper.Impersonate = rest.ImpersonationConfig{UserName: "keeper"}
	s.keeper = newClient(t, keeper)
	request := &authenticationv1.TokenRequest{}
	if err := s.root.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	bot := rest.AnonymousClientConfig(cluster.Config())
	bot.BearerToken = request.Status.Token
	s.bot = newClient(t, bot)
	return s
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, corev1alpha1.AddToScheme, workspacesv1alpha1.AddToScheme,
		workflowsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	made, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (s *scene) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

func (s *scene) account() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "bot"}
}

func (s *scene) binding(name, role string, subject rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: s.named(name), Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
}

func (s *scene) run(name, workspace string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: s.named(name), Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}}}
	if workspace != "" {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	}
	return run
}

func (s *scene) create(object client.Object) {
	s.Helper()
	if err := s.root.Create(s.Context(), object); err != nil {
		s.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// eventually waits until check returns nothing, and fails with what it said last.
func (s *scene) eventually(what string, check func(context.Context) error) {
	s.Helper()
	deadline, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		err := check(s.Context())
		if err == nil {
			return
		}
		select {
		case <-deadline:
			s.Fatalf("not within %s: %s: %v", patience, what, err)
		case <-tick.C:
		}
	}
}

func (s *scene) followsAGrant() {
	s.Helper()
	const message = "kubectl create rolebinding use-workspaces --namespace=team-a --clusterrole=kruntimes-workspace-user --serviceaccount=team-a:bot"
	s.eventually("a refusal that says what to do", func(ctx context.Context) error {
		err := s.bot.Create(ctx, s.run("early", "ci"))
		if err == nil {
			s.Fatal("a Run was created without the right to use its workspace")
		}
		if !strings.Contains(err.Error(), message) {
			return fmt.Errorf("without %q: %w", message, err)
		}
		return nil
	})
	if err := s.bot.Create(s.Context(), s.run("private", "")); err != nil {
		s.Errorf("a Run without a workspace: %v", err)
	}
	s.eventually("the administrator's binding", func(ctx context.Context) error {
		return s.keeper.Create(ctx, s.binding("use-workspaces", config.WorkspaceUserClusterRole, s.account()))
	})
	s.eventually("a Run in the workspace", func(ctx context.Context) error { return s.bot.Create(ctx, s.run("granted", "ci")) })
}

// hearsEarlyWords is told at once of a Workflow that can never work.
func (s *scene) hearsEarlyWords() {
	s.Helper()
	circle := &workflowsv1alpha1.Workflow{ObjectMeta: s.named("circle"), Spec: workflowsv1alpha1.WorkflowSpec{Jobs: map[string]workflowsv1alpha1.Job{
		"a": {RunsOn: "sh", Needs: []string{"a"}, Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}}}
	s.eventually("early words", func(ctx context.Context) error {
		err := s.bot.Create(ctx, circle.DeepCopy(), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the job needs itself: a -> a") {
			return fmt.Errorf("a Workflow whose job needs itself: %v", err) //nolint:errorlint // it may be none
		}
		return nil
	})
}

// survivesAKill kills the manager: its successor is asked at the same address and shows the same certificate.
func (s *scene) survivesAKill() {
	s.Helper()
	for i := range 3 {
		if err := s.cluster.Crash(devcluster.PartManager); err != nil {
			s.Fatal(err)
		}
		if err := s.bot.Create(s.Context(), s.run(fmt.Sprintf("private-%d", i), "")); err != nil {
			s.Errorf("a Run without a workspace while the manager starts: %v", err)
		}
		s.eventually("a Run in the workspace after the manager was killed", func(ctx context.Context) error {
			return s.bot.Create(ctx, s.run(fmt.Sprintf("granted-%d", i), "ci"))
		})
		s.hearsEarlyWords()
	}
}

// guardsNoFiles shows what docs/security.md says plainly: the right guards the reference, and no file. Who may create Runs of
// the Runtime, and may use no workspace, reads what lies in one by a Run on the same Pod.
func (s *scene) guardsNoFiles() {
	s.Helper()
	sh := &corev1alpha1.Runtime{ObjectMeta: s.named("sh")}
	sh.Spec.Replicas = ptr.To(int32(1))
	sh.Spec.Template.Spec.Containers = []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "debian:12-slim"}}
	s.create(sh)
	writes := s.run("writes", "ci")
	writes.Spec.Source.Inline = "echo hunter2 >token; echo \"directory=$PWD\" >>\"$KRUNTIME_OUTPUTS\""
	s.eventually("the Run that writes to be created", func(ctx context.Context) error { return s.bot.Create(ctx, writes) })
	directory := string(s.succeeded(writes).Status.Outputs["directory"])

	mallory := s.cluster.Config()
	mallory.Impersonate = rest.ImpersonationConfig{UserName: "mallory"}
	s.create(s.binding("mallory", "kruntimes-edit", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}))
	reads := s.run("reads", "")
	reads.Spec.Source.Inline = "echo \"token=$(cat '" + directory + "/token')\" >>\"$KRUNTIME_OUTPUTS\""
	s.eventually("the Run that reads to be created", func(ctx context.Context) error { return newClient(s.T, mallory).Create(ctx, reads) })
	if got := s.succeeded(reads).Status.Outputs["token"]; got != "hunter2" {
		s.Errorf("the Run read %q: if there is a wall now, docs/security.md has to say so", got)
	}
}

// succeeded waits for the end of a Run, which must be a good one.
func (s *scene) succeeded(run *corev1alpha1.Run) *corev1alpha1.Run {
	s.Helper()
	seen := &corev1alpha1.Run{}
	s.eventually("the end of Run "+run.Name, func(ctx context.Context) error {
		if err := s.root.Get(ctx, client.ObjectKeyFromObject(run), seen); err != nil {
			return err
		}
		if !seen.Status.Phase.IsTerminal() {
			return fmt.Errorf("it is %s: %s", seen.Status.Phase, seen.Status.Message)
		}
		return nil
	})
	if seen.Status.Phase != corev1alpha1.RunSucceeded {
		s.Fatalf("Run %s: %s/%s %s", seen.Name, seen.Status.Phase, seen.Status.Reason, seen.Status.Message)
	}
	return seen
}
