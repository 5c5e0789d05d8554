package core

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// missingRight says which right the caller lacks and how an administrator of the namespace grants it: a rule to paste into
// a Role, for this workspace only, and a command that binds the ClusterRole role, for all workspaces of the namespace.
// The rule stands there as YAML because "kubectl create role" refuses the verb "use" for kinds that it does not know.
func missingRight(a attempt, role string) string {
	who, flag := subject(a.caller.Username)
	rule := fmt.Sprintf("{apiGroups: [%s], resources: [%s/%s], verbs: [%s], resourceNames: [%q]}", workspacesv1alpha1.GroupVersion.Group,
		workspacesv1alpha1.Resource, workspacesv1alpha1.SubresourceUse, workspacesv1alpha1.VerbUse, a.workspace())
	return fmt.Sprintf("%s may not execute in PersistentWorkspace %q: the verb %q on %s/%s is missing. An administrator of namespace %q grants it "+
		"with a RoleBinding to a Role that holds the rule %s, or for all workspaces of the namespace with "+
		"kubectl create rolebinding use-workspaces --namespace=%s --clusterrole=%s %s",
		who, a.workspace(), workspacesv1alpha1.VerbUse, workspacesv1alpha1.Resource, workspacesv1alpha1.SubresourceUse, a.namespace,
		rule, a.namespace, role, flag)
}

// subject names the caller for people, and as the argument of "kubectl create rolebinding".
func subject(username string) (who, flag string) {
	if rest, isAccount := strings.CutPrefix(username, serviceaccount.ServiceAccountUsernamePrefix); isAccount {
		if namespace, name, ok := strings.Cut(rest, ":"); ok {
			return fmt.Sprintf("ServiceAccount %s/%s", namespace, name), "--serviceaccount=" + quote(namespace+":"+name)
		}
	}
	return fmt.Sprintf("user %q", username), "--user=" + quote(username)
}

// quote makes a word of a shell of text that may hold anything.
func quote(text string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !isPlain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
