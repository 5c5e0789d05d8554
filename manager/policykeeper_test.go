package manager

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config/selfinstall"
)

// TestEveryPolicyIsWatched: the cache holds only the kinds that are listed.
func TestEveryPolicyIsWatched(t *testing.T) {
	all, err := selfinstall.Policies()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no policies")
	}
	for _, policy := range all {
		if kind := policy.GroupVersionKind(); !slices.Contains(policyKinds, kind) {
			t.Errorf("nobody watches %s", kind)
		}
	}
}

func TestPlanPolicy(t *testing.T) {
	const want = `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}}, spec: {fails: closed}}`
	owner := &metav1.OwnerReference{APIVersion: "rbac/v1", Kind: "ClusterRole", Name: "new", UID: "2"}
	cases := map[string]struct {
		have  string
		owner *metav1.OwnerReference
		// want is empty where nothing is to be changed.
		want string
	}{
		"it is as it should be": {
			have: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, uid: u, labels: {by: us, theirs: x}}, spec: {fails: closed}, status: {seen: 1}}`,
		},
		"a field was added to its spec": {
			have: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, resourceVersion: "7", labels: {by: us}}, spec: {fails: closed, only: never}, status: {seen: 1}}`,
			want: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, resourceVersion: "7", labels: {by: us}}, spec: {fails: closed}, status: {seen: 1}}`,
		},
		"its label was taken away, and another one put there": {
			have: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {theirs: x}}, spec: {fails: closed}}`,
			want: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us, theirs: x}}, spec: {fails: closed}}`,
		},
		"it has no labels at all": {
			have: `{apiVersion: a/v1, kind: Policy, metadata: {name: p}, spec: {fails: closed}}`,
			want: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}}, spec: {fails: closed}}`,
		},
		"it is owned by the version before": {
			have:  `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: old, uid: "1"}, {apiVersion: v1, kind: Other, name: o, uid: "9"}]}, spec: {fails: closed}}`,
			owner: owner,
			want:  `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: old, uid: "1"}, {apiVersion: v1, kind: Other, name: o, uid: "9"}, {apiVersion: rbac/v1, kind: ClusterRole, name: new, uid: "2"}]}, spec: {fails: closed}}`,
		},
		"its owner was made anew under the same name": {
			have:  `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: new, uid: "1"}]}, spec: {fails: closed}}`,
			owner: owner,
			want:  `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: new, uid: "1"}, {apiVersion: rbac/v1, kind: ClusterRole, name: new, uid: "2"}]}, spec: {fails: closed}}`,
		},
		"its owner and that of a version that started later": {
			have:  `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: new, uid: "2"}, {apiVersion: rbac/v1, kind: ClusterRole, name: old, uid: "1"}]}, spec: {fails: closed}}`,
			owner: owner,
		},
		"its owner is the present one": {
			have:  `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: new, uid: "2"}]}, spec: {fails: closed}}`,
			owner: owner,
		},
		"nobody asks about its owner": {
			have: `{apiVersion: a/v1, kind: Policy, metadata: {name: p, labels: {by: us}, ownerReferences: [{apiVersion: rbac/v1, kind: ClusterRole, name: old, uid: "1"}]}, spec: {fails: closed}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := planPolicy(parsed(t, want), parsed(t, tc.have), tc.owner)
			if diff := cmp.Diff(parsed(t, tc.want), got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}
