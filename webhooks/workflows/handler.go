package workflows

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/validate"
)

// Path is where the API server asks about Workflows, Actions and WorkflowRuns.
const Path = "/validate-workflows-kruntimes-io-v1alpha1"

// Bounds of an answer. How many causes it has, package validate bounds. Unit: bytes.
const (
	maxMessage = 16 << 10
	maxCause   = 1 << 10
)

// handler answers the API server. It reads nothing and keeps nothing.
type handler struct{}

// NewWebhook makes what answers the API server about definitions and WorkflowRuns. Every replica can serve it. A panic is not
// turned into an answer, which would refuse: the API server hears nothing, and goes on.
func NewWebhook(log logr.Logger) *admission.Webhook {
	webhook := &admission.Webhook{Handler: handler{}, LogConstructor: func(_ logr.Logger, request *admission.Request) logr.Logger {
		if request == nil {
			return log
		}
		object := types.NamespacedName{Namespace: request.Namespace, Name: request.Name}
		return log.WithValues(request.Kind.Kind, object.String(), "user", request.UserInfo.Username, "requestID", request.UID)
	}}
	return webhook.WithRecoverPanic(false)
}

// Handle decides on one request.
func (handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	log := ctrl.LoggerFrom(ctx)
	v, err := judge(&request.AdmissionRequest)
	if err != nil {
		log.Error(err, "Admitted what could not be read")
		return admission.Allowed("")
	}
	if len(v.errs) == 0 {
		return admission.Allowed("")
	}
	log.V(1).Info("Refused definition", "problems", len(v.errs))
	return refusal(request.Kind.Kind, v)
}

// refusal is what the API server says of an object that its own rules refuse: code 422, and a cause for each problem.
func refusal(kind string, v verdict) admission.Response {
	group := workflowsv1alpha1.GroupVersion.Group
	message := fmt.Sprintf("%s.%s %q is invalid: %s", kind, group, v.name, validate.Joined(v.errs, maxMessage))
	response := admission.Denied("")
	response.Result = &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: statuspatch.Bounded(message, maxMessage),
		Details: &metav1.StatusDetails{Group: group, Kind: kind, Name: v.name, Causes: causes(v.errs)},
	}
	return response
}

func causes(errs field.ErrorList) []metav1.StatusCause {
	all := make([]metav1.StatusCause, len(errs))
	for i, err := range errs {
		all[i] = metav1.StatusCause{Type: metav1.CauseType(err.Type), Field: err.Field, Message: statuspatch.Bounded(validate.Words(err), maxCause)}
	}
	return all
}
