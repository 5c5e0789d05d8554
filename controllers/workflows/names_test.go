package workflows

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func owner(name, uid string) *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func TestChildNames(t *testing.T) {
	long := strings.Repeat("n", 253)
	cases := map[string]struct {
		owner string
		id    identity
		want  []string
	}{
		"readable first, hashed when that is taken":  {"ci", identity{job: "build", step: "test"}, []string{"ci-build-test", "ci-build-test-bd6b728b"}},
		"letters that a name cannot hold are mapped": {"ci", identity{job: "Build_1", step: "T_x"}, []string{"ci-build-1-t-x", "ci-build-1-t-x-134353aa"}},
		"only hashed when it is too long":            {long, identity{job: "build", step: "test"}, []string{strings.Repeat("n", 54) + "-bd6b728b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := childNames(owner(tc.owner, "uid-1"), tc.id)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, n := range got {
				if errs := validation.IsDNS1123Subdomain(n); len(errs) > 0 {
					t.Errorf("%s: %v", n, errs)
				}
			}
		})
	}
}

// TestHashedNamesAreUnique takes pairs whose readable names are the same.
func TestHashedNamesAreUnique(t *testing.T) {
	j63 := strings.Repeat("j", 62)
	pairs := map[string][2][]string{
		"an underscore and a dash":       {childNames(owner("w", "1"), identity{job: "a_b", step: "s"}), childNames(owner("w", "1"), identity{job: "a-b", step: "s"})},
		"upper and lower case":           {childNames(owner("w", "1"), identity{job: "A", step: "s"}), childNames(owner("w", "1"), identity{job: "a", step: "s"})},
		"two owners that share a prefix": {childNames(owner("a", "1"), identity{job: "b-c", step: "s"}), childNames(owner("a-b", "2"), identity{job: "c", step: "s"})},
		"a successor of the same name":   {childNames(owner("w", "1"), identity{job: "a", step: "s"}), childNames(owner("w", "2"), identity{job: "a", step: "s"})},
		"a dash in the job or the step":  {childNames(owner("w", "1"), identity{job: "a-b", step: "c"}), childNames(owner("w", "1"), identity{job: "a", step: "b-c"})},
	}
	for name, pair := range pairs {
		if pair[0][0] != pair[1][0] {
			t.Errorf("%s: the readable names differ: %v", name, pair)
		}
		if pair[0][1] == pair[1][1] {
			t.Errorf("%s: the hashed names are the same: %v", name, pair)
		}
	}
	long := strings.Repeat("w", 253)
	a, b := childNames(owner(long, "1"), identity{job: j63 + "a", step: "s"}), childNames(owner(long, "1"), identity{job: j63 + "b", step: "s"})
	if a[0] == b[0] {
		t.Errorf("jobs that differ in the 63rd character share the name %s", a[0])
	}
}
