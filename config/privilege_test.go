package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// rulesOf returns the rules of every role of an overlay, those of a namespace included.
func rulesOf(t *testing.T, overlay string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	objects, rules := parse(t, build(t, overlay, unchanged)), map[string][]rbacv1.PolicyRule{}
	for name, role := range typed[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		rules[name] = role.Rules
	}
	for name, role := range typed[rbacv1.Role](t, objects, "Role") {
		rules["in "+role.Namespace+"/"+name] = role.Rules
	}
	return rules
}

// TestNobodyReadsSecrets keeps wildcards and Secrets, and what leads to either, out of every role of every overlay.
func TestNobodyReadsSecrets(t *testing.T) {
	forbidden := []string{"*", "secrets", "configmaps", "pods/exec", "pods/attach", "pods/log", "serviceaccounts/token", "escalate", "impersonate",
		"nodes/proxy", "clusterrolebindings"}
	for _, overlay := range []string{"overlays/core", "overlays/core-workspaces", "overlays/all"} {
		for name, rules := range rulesOf(t, overlay) {
			for _, rule := range rules {
				for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs) {
					if slices.Contains(forbidden, word) || strings.Contains(word, "*") {
						t.Errorf("%s: %s speaks of %q: %v", overlay, name, word, rule)
					}
				}
			}
		}
	}
}

// TestTheSchedulerWritesOnlyWhereRunsGo lists all that it may write in every namespace.
func TestTheSchedulerWritesOnlyWhereRunsGo(t *testing.T) {
	var writes []string
	for _, rule := range rulesOf(t, "overlays/all")[SchedulerServiceAccount] {
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				for _, resource := range rule.Resources {
					writes = append(writes, verb+" "+resource)
				}
			}
		}
	}
	slices.Sort(writes)
	if diff := cmp.Diff([]string{"create events", "govern runs/status", "patch events", "patch runs/status"}, writes); diff != "" {
		t.Errorf("what the scheduler writes (-want +got):\n%s", diff)
	}
}

// TestWhatTheManagerMayDelete lists all of it. Everything else goes with its owner.
func TestWhatTheManagerMayDelete(t *testing.T) {
	var deletes []string
	for name, rules := range rulesOf(t, "overlays/all") {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				if strings.HasPrefix(verb, "delete") && strings.HasSuffix(name, "manager") {
					deletes = append(deletes, rule.Resources...)
				}
			}
		}
	}
	slices.Sort(deletes)
	want := []string{"persistentworkspaces", "rolebindings", "runs", "serviceaccounts", "workflowruns"}
	if diff := cmp.Diff(want, deletes); diff != "" {
		t.Errorf("what the manager may delete (-want +got):\n%s", diff)
	}
}

// TestRuntimedIsBoundByTheManagerOnly keeps its role out of every binding that is installed: the manager binds it, namespace by
// namespace, and no other role.
func TestRuntimedIsBoundByTheManagerOnly(t *testing.T) {
	objects := parse(t, build(t, "overlays/all", unchanged))
	for name, binding := range typed[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
		if binding.RoleRef.Name == RuntimedClusterRole {
			t.Errorf("ClusterRoleBinding %s gives runtimed its rights in every namespace", name)
		}
	}
	for name, binding := range typed[rbacv1.RoleBinding](t, objects, "RoleBinding") {
		if binding.RoleRef.Name == RuntimedClusterRole {
			t.Errorf("RoleBinding %s gives somebody the rights of runtimed", name)
		}
	}
}
