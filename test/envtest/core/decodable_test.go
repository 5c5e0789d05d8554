package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestNobodyStoresWhatCannotBeDecoded tries what would break the lists of a whole kind, for all namespaces, as people and as a Pod. That
// every field is safe is tested beside the schema, in hack/crds.
func TestNobodyStoresWhatCannotBeDecoded(t *testing.T) {
	ns := shared.Namespace(t)
	const input = `{"runtime": "sh", "source": {"inline": "true"}, "artifactInputs": [{"path": "p", "artifact": {"name": "a", "driver": "S3",
		"type": "File", "sizeBytes": 1, "digest": "sha256:%s", "createdAt": %s,
		"location": {"s3": {"bucket": "artifacts", "key": "runs/00000000-0000-0000-0000-000000000000/artifacts/a"}}}}]}`
	digest := strings.Repeat("a", 64)
	const template = `{"template": {"spec": {"containers": [{"name": "runtime", "image": "x", %s}]}}}`
	cases := map[string]struct{ kind, spec, want string }{
		"a time":             {"Run", fmt.Sprintf(input, digest, `"2026-07-06T12:00:00Z"`), ""},
		"a time in small":    {"Run", fmt.Sprintf(input, digest, `"2026-07-06t12:00:00z"`), "spec.artifactInputs[0].artifact.createdAt"},
		"an impossible zone": {"Run", fmt.Sprintf(input, digest, `"2026-07-06T12:00:00+99:99"`), "spec.artifactInputs[0].artifact.createdAt"},
		"a list for a time":  {"Run", fmt.Sprintf(input, digest, `[]`), "spec.artifactInputs[0].artifact.createdAt"},
		"a quantity":         {"Runtime", fmt.Sprintf(template, `"resources": {"limits": {"cpu": "1e1", "memory": "1Gi"}}`), ""},
		"a broken exponent":  {"Runtime", fmt.Sprintf(template, `"resources": {"limits": {"cpu": "1e1.5"}}`), "spec.template.spec.containers[0].resources.limits.cpu"},
		"a quantity that takes minutes": {"Runtime", fmt.Sprintf(template, `"resources": {"limits": {"cpu": "1`+strings.Repeat("0", 1000)+`"}}`),
			"spec.template.spec.containers[0].resources.limits.cpu"},
		"a port out of range": {"Runtime", fmt.Sprintf(template, `"livenessProbe": {"httpGet": {"port": 99999999999}}`),
			"spec.template.spec.containers[0].livenessProbe.httpGet.port"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			manifest := fmt.Sprintf(`{"apiVersion": "kruntimes.io/v1alpha1", "kind": %q, "metadata": {"namespace": %q, "generateName": "r-"}, "spec": %s}`, tc.kind, ns, tc.spec)
			if err := json.Unmarshal([]byte(manifest), u); err != nil {
				t.Fatal(err)
			}
			expectError(t, "creating it", shared.Admin().Create(t.Context(), u), tc.want)
		})
	}
	run, cfg, _ := assigned(t, ns)
	pod := cluster.Client(t, cfg)
	for _, at := range []string{`"2026-07-06T12:00:00Z"`, `"2026-07-06T12:00:00.000000z"`, `[]`} {
		expectError(t, "the Pod reports start "+at, patchStatus(t, pod, run, `{"status":{"phase":"Running","startTime":`+at+`}}`), "status.startTime")
	}
	for _, list := range []client.ObjectList{&corev1alpha1.RunList{}, &corev1alpha1.RuntimeList{}} {
		if err := shared.Admin().List(t.Context(), list); err != nil {
			t.Errorf("listing %T: %v", list, err)
		}
	}
}
