package core

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// MarkPath is where the API server has Runs marked that name a workspace.
const MarkPath = "/mark-kruntimes-io-v1alpha1-run"

// marked is the value of LabelNamesWorkspace.
const marked = "true"

// NewMarker makes what puts LabelNamesWorkspace on Runs that name a workspace and takes it off all others. It decides nothing:
// it tells the API server apart which Runs it has to ask RunHandler about, where that cannot look into the spec itself. A Run
// that was not marked because nobody answered is refused by a policy; one that somebody marked himself is asked about. A
// panic is not turned into an answer, which would refuse Runs that name no workspace.
func NewMarker(log logr.Logger) *admission.Webhook {
	webhook := &admission.Webhook{Handler: admission.HandlerFunc(mark), LogConstructor: Log(log)}
	return webhook.WithRecoverPanic(false)
}

// mark answers one request.
func mark(_ context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	run := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(request.Object.Raw, &run.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the Run: %w", err))
	}
	if !markRun(run) {
		return admission.Allowed("")
	}
	after, err := run.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the Run: %w", err))
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, after)
}

// markRun makes the label of a Run true, and tells whether it was not.
func markRun(run *unstructured.Unstructured) (changed bool) {
	_, names, _ := unstructured.NestedFieldNoCopy(run.Object, "spec", "workspace")
	labels := run.GetLabels()
	value, has := labels[corev1alpha1.LabelNamesWorkspace]
	switch {
	case !names && has:
		delete(labels, corev1alpha1.LabelNamesWorkspace)
	case !names || value == marked:
		return false
	default:
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1alpha1.LabelNamesWorkspace] = marked
	}
	run.SetLabels(labels)
	return true
}
