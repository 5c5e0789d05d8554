package run

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/krt/cli"
)

// refused is what the API server answers to the creation of a Run.
func refused(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

func TestWorkspaceRefusals(t *testing.T) {
	const denied = `admission webhook "workspace-use.kruntimes.io" denied the request: `
	cases := map[string]struct {
		err            error
		want, wantHint string
	}{
		"there is no such workspace": {
			err:  refused(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, denied+`spec.workspace.name: namespace "ns" has no PersistentWorkspace "w"`),
			want: `the Run is refused: spec.workspace.name: namespace "ns" has no PersistentWorkspace "w"`, wantHint: "see which workspaces there are with `krt get workspaces`",
		},
		"a right is missing": {
			err:  refused(http.StatusForbidden, metav1.StatusReasonForbidden, denied+`spec.workspace.name: user "ada" may not execute`),
			want: `the Run is refused: spec.workspace.name: user "ada" may not execute`,
		},
		"the manager is down": {
			err: refused(http.StatusInternalServerError, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "workspace-use.kruntimes.io": connection refused`),
			want: `the Run is refused: nobody could be asked whether you may use the workspace: Internal error occurred: ` +
				`failed calling webhook "workspace-use.kruntimes.io": connection refused`,
			wantHint: "the manager of kruntimes answers that: is it up? Runs without --workspace need no answer",
		},
		"another webhook": {
			err:  refused(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "x.example.com" denied the request: no`),
			want: `creating the Run: admission webhook "x.example.com" denied the request: no`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := createHint(tc.err, &corev1alpha1.Run{})
			hint := ""
			var hinted *cli.HintError
			if errors.As(err, &hinted) {
				hint = hinted.Hint
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantHint}, []string{err.Error(), hint}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !errors.Is(err, tc.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

// TestTheWebhookHasThisName looks the name up in what is installed.
func TestTheWebhookHasThisName(t *testing.T) {
	manifests, err := config.Render(config.OverlayDev)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var c admissionregistrationv1.ValidatingWebhookConfiguration
		if err := decoder.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if c.Kind != "ValidatingWebhookConfiguration" {
			continue
		}
		for _, webhook := range c.Webhooks {
			names = append(names, webhook.Name)
		}
	}
	if !slices.Contains(names, useWebhook) {
		t.Errorf("the webhooks are %q, and none is %s", names, useWebhook)
	}
}
