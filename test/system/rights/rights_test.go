package rights

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
)

// runtimed stands for the ServiceAccounts of all Runtimes, manager and scheduler for their own.
const (
	manager   = "manager"
	scheduler = "scheduler"
	runtimed  = "runtimed"
)

// never are the rights that nobody sends a request for here, and why they are given.
var never = map[string]string{
	"manager govern runs/status.kruntimes.io":                       "the admission policies ask for it",
	"scheduler govern runs/status.kruntimes.io":                     "the admission policies ask for it",
	"manager bind clusterroles.rbac.authorization.k8s.io":           "the API server asks for it when the manager makes a RoleBinding",
	"manager update runtimes/finalizers.kruntimes.io":               "admission OwnerReferencesPermissionEnforcement, where it is on, asks for it",
	"manager update workflowruns/finalizers.workflows.kruntimes.io": "admission OwnerReferencesPermissionEnforcement, where it is on, asks for it",
	"manager create deployments.apps":                               "the API server asks for it when an apply, which is a patch, creates",
	"manager create rolebindings.rbac.authorization.k8s.io":         "the API server asks for it when an apply, which is a patch, creates",
	"manager create serviceaccounts":                                "the API server asks for it when an apply, which is a patch, creates",
	"manager get controllerrevisions.apps":                          "a snapshot that is there already is read again",
	"scheduler get runs.kruntimes.io":                               "a new leader reads again what its informer does not show yet",
}

// excused tells whether a right need not be seen in use. Informers take what there is as the beginning of a watch; where the API
// server cannot do that, they list it, with a right that goes with that to watch.
func excused(right string, used map[string]bool) bool {
	return never[right] != "" || strings.Contains(right, " list ") && used[strings.Replace(right, " list ", " watch ", 1)]
}

// TestRightsAreThoseThatAreUsed executes some of everything. None of the components may be refused anything meanwhile, and each
// right that it holds has to be used.
func TestRightsAreThoseThatAreUsed(t *testing.T) {
	exercise(t)
	granted := rights(t)
	var missing, refused []string
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		var used map[string]bool
		used, refused = requests(t)
		missing = slices.DeleteFunc(slices.Sorted(maps.Keys(granted)), func(right string) bool { return used[right] || excused(right, used) })
		return len(missing) == 0, nil
	})
	if err != nil {
		t.Errorf("rights that were not used:\n%s", strings.Join(missing, "\n"))
	}
	if len(refused) > 0 {
		t.Errorf("requests that were refused:\n%s", strings.Join(refused, "\n"))
	}
	for right, why := range never {
		if !granted[right] {
			t.Errorf("%s is not granted, and so need not be excused (%s)", right, why)
		}
	}
}

// rights returns what the components may do, each as "component verb resource.group".
func rights(t *testing.T) map[string]bool {
	t.Helper()
	granted := map[string]bool{}
	add := func(component string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[right(component, verb, resource, group)] = true
					}
				}
			}
		}
	}
	var bindings rbacv1.ClusterRoleBindingList
	var local rbacv1.RoleBindingList
	list(t, &bindings)
	list(t, &local, client.InNamespace(config.Namespace))
	for _, binding := range bindings.Items {
		for _, subject := range binding.Subjects {
			if component := componentOf(subject.Namespace, subject.Name); component != "" {
				add(component, clusterRole(t, binding.RoleRef.Name))
			}
		}
	}
	for _, binding := range local.Items {
		role := &rbacv1.Role{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: config.Namespace, Name: binding.RoleRef.Name}, role); err != nil {
			t.Fatal(err)
		}
		for _, subject := range binding.Subjects {
			if component := componentOf(subject.Namespace, subject.Name); component != "" {
				add(component, role.Rules)
			}
		}
	}
	add(runtimed, clusterRole(t, config.RuntimedClusterRole))
	return granted
}

func clusterRole(t *testing.T, name string) []rbacv1.PolicyRule {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

func list(t *testing.T, into client.ObjectList, options ...client.ListOption) {
	t.Helper()
	if err := admin.List(t.Context(), into, options...); err != nil {
		t.Fatal(err)
	}
}

// right is how rights and requests are written here.
func right(component, verb, resource, group string) string {
	return strings.TrimSuffix(component+" "+verb+" "+resource+"."+group, ".")
}

// componentOf tells whose ServiceAccount this is; nobody's of ours where it is empty.
func componentOf(namespace, account string) string {
	switch {
	case namespace == config.Namespace && account == config.ManagerServiceAccount:
		return manager
	case namespace == config.Namespace && account == config.SchedulerServiceAccount:
		return scheduler
	case namespace != config.Namespace && strings.HasPrefix(account, "runtime-"):
		return runtimed
	}
	return ""
}

// isRefusal tells whether a right was missing. That a namespace in deletion takes nothing new has the same code.
func isRefusal(status *metav1.Status) bool {
	return status != nil && (status.Code == 403 || status.Code == 401) &&
		!apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: *status}, corev1.NamespaceTerminatingCause)
}

// requests returns what the components have asked for so far, in the form of rights, and what they were refused.
func requests(t *testing.T) (used map[string]bool, refused []string) {
	t.Helper()
	file, err := os.Open(notes)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	used = map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // The API server writes the last line just now.
		}
		namespace, account, ok := strings.Cut(strings.TrimPrefix(event.User.Username, "system:serviceaccount:"), ":")
		component := componentOf(namespace, account)
		if !ok || component == "" || event.ObjectRef == nil {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		if isRefusal(event.ResponseStatus) {
			refused = append(refused, fmt.Sprintf("%s (%s %s, %s): %s", right(component, event.Verb, resource, event.ObjectRef.APIGroup),
				event.ObjectRef.Namespace, event.ObjectRef.Name, event.UserAgent, event.ResponseStatus.Message))
			continue
		}
		used[right(component, event.Verb, resource, event.ObjectRef.APIGroup)] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return used, refused
}
