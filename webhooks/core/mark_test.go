package core

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func TestMark(t *testing.T) {
	workspace := &corev1alpha1.WorkspaceReference{Name: "ci"}
	cases := map[string]struct {
		labels    map[string]string
		workspace *corev1alpha1.WorkspaceReference
		want      map[string]string
	}{
		"a workspace and no labels":             {workspace: workspace, want: map[string]string{"kruntimes.io/names-workspace": "true"}},
		"a workspace and other labels":          {workspace: workspace, labels: map[string]string{"a": "b"}, want: map[string]string{"a": "b", "kruntimes.io/names-workspace": "true"}},
		"a workspace and a mark of other value": {workspace: workspace, labels: map[string]string{"kruntimes.io/names-workspace": "no"}, want: map[string]string{"kruntimes.io/names-workspace": "true"}},
		"a workspace and the mark":              {workspace: workspace, labels: map[string]string{"kruntimes.io/names-workspace": "true"}, want: map[string]string{"kruntimes.io/names-workspace": "true"}},
		"no workspace":                          {labels: map[string]string{"a": "b"}, want: map[string]string{"a": "b"}},
		"no workspace, and a planted mark":      {labels: map[string]string{"a": "b", "kruntimes.io/names-workspace": "true"}, want: map[string]string{"a": "b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: tc.labels}, Spec: corev1alpha1.RunSpec{Workspace: tc.workspace}}
			r := request(t, admissionv1.Create, authenticationv1.UserInfo{}, run)
			response := mark(t.Context(), r)
			if !response.Allowed {
				t.Fatalf("it was refused: %v", response.Result)
			}
			if diff := cmp.Diff(tc.want, labelsAfter(t, r.Object.Raw, response.Patches)); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// labelsAfter are the labels that the API server stores.
func labelsAfter(t *testing.T, object []byte, operations any) map[string]string {
	t.Helper()
	raw, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != "null" {
		patch, err := jsonpatch.DecodePatch(raw)
		if err != nil {
			t.Fatal(err)
		}
		if object, err = patch.Apply(object); err != nil {
			t.Fatal(err)
		}
	}
	run := &corev1alpha1.Run{}
	if err := json.Unmarshal(object, run); err != nil {
		t.Fatal(err)
	}
	return run.Labels
}

func TestMarkLeavesUpdatesAlone(t *testing.T) {
	run := &corev1alpha1.Run{Spec: corev1alpha1.RunSpec{Workspace: &corev1alpha1.WorkspaceReference{Name: "ci"}}}
	if response := mark(t.Context(), request(t, admissionv1.Update, authenticationv1.UserInfo{}, run)); !response.Allowed || len(response.Patches) > 0 {
		t.Errorf("an update was answered with %+v", response)
	}
}
