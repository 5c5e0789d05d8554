package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// RunPath is where the API server asks about Runs that name a workspace.
const RunPath = "/validate-kruntimes-io-v1alpha1-run"

// The API server waits 5 s for an answer (config/webhook/workspaces). One read and one review, or the reads of workspace and owner, have
// to fit in with time to spare: an answer that comes too late refuses the Run as well, but tells its caller nothing.
const (
	readTimeout   = 2 * time.Second
	reviewTimeout = 2 * time.Second
)

// ControllerUser returns the user name of a ServiceAccount, by which RunHandler knows the controller of WorkflowRuns.
func ControllerUser(account types.NamespacedName) string {
	return serviceaccount.MakeUsername(account.Namespace, account.Name)
}

// RunHandler answers the API server whether a Run that names a workspace may be created. It keeps nothing between two
// requests, and so can serve in every replica.
type RunHandler struct {
	// Live reads from the API server, past every cache of this process; of WorkflowRuns also what the API server's cache has. It needs
	// get on persistentworkspaces and workflowruns.
	Live client.Reader
	// Reviews creates SubjectAccessReviews, and nothing else.
	Reviews client.Writer
	// Controller is the user name of the ServiceAccount that creates the Runs of WorkflowRuns; see ControllerUser. It holds
	// no right to use workspaces, and is not asked for one: see the package comment. Empty: everybody is asked.
	Controller string
	// Role is the ClusterRole that allows all workspaces of a namespace, which is named to callers who lack the right.
	Role string
}

// Handle decides on one request. Requests other than the creation of a Run with a workspace are admitted: the reference
// never changes afterwards.
func (h *RunHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	run := &corev1alpha1.Run{}
	if err := utiljson.Unmarshal(request.Object.Raw, run); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the Run: %w", err))
	}
	if run.Spec.Workspace == nil {
		return admission.Allowed("")
	}
	a := attempt{caller: request.UserInfo, namespace: request.Namespace, run: run}
	v := h.judge(ctx, a)
	log := ctrl.LoggerFrom(ctx).V(1)
	if !v.isRefusal() {
		log.Info("Admitted Run", "workspace", a.workspace())
		return admission.Allowed("")
	}
	log.Info("Refused Run", "workspace", a.workspace(), "reason", v.reason, "message", v.message)
	response := admission.Denied(v.message)
	response.Result.Reason, response.Result.Code = v.reason, codes[v.reason]
	return response
}

// Log names what the lines about one request are about. It is the LogConstructor of a webhook.
func Log(log logr.Logger) func(logr.Logger, *admission.Request) logr.Logger {
	return func(_ logr.Logger, request *admission.Request) logr.Logger {
		if request == nil {
			return log
		}
		name := request.Name
		return log.WithValues("Run", types.NamespacedName{Namespace: request.Namespace, Name: name}.String(), "user", request.UserInfo.Username,
			"requestID", request.UID)
	}
}

// judge reads and asks in the order in which the decision needs it, and stops at the first refusal.
func (h *RunHandler) judge(ctx context.Context, a attempt) verdict {
	workspace, err := h.workspace(ctx, a)
	if err != nil {
		return undecided(ctx, err, "PersistentWorkspace %q could not be read", a.workspace())
	}
	if v := judgeReference(a, workspace); v.isRefusal() {
		return v
	}
	if h.Controller != "" && a.caller.Username == h.Controller {
		live, err := h.owner(ctx, a)
		if err != nil {
			return undecided(ctx, err, "the WorkflowRun of the Run could not be read")
		}
		return judgeChild(a, workspace, live)
	}
	allowed, err := h.review(ctx, a)
	if err != nil {
		return undecided(ctx, err, "whether %q may execute in PersistentWorkspace %q could not be found out", a.caller.Username, a.workspace())
	}
	return judgeReview(a, allowed, h.Role)
}

// undecided refuses a Run because of an error, which goes to the log: it may tell more than the caller should know.
func undecided(ctx context.Context, err error, format string, args ...any) verdict {
	what := fmt.Sprintf(format, args...)
	ctrl.LoggerFrom(ctx).Error(err, "Could not decide on Run", "message", what)
	if errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) {
		return refusal(metav1.StatusReasonTimeout, "%s in time: try again", what)
	}
	return refusal(metav1.StatusReasonServiceUnavailable, "%s: try again, and look into the log of the manager where that does not help", what)
}

// workspace reads the workspace that the Run names; nil when there is none.
func (h *RunHandler) workspace(ctx context.Context, a attempt) (*workspacesv1alpha1.PersistentWorkspace, error) {
	workspace := &workspacesv1alpha1.PersistentWorkspace{}
	found, err := h.read(ctx, types.NamespacedName{Namespace: a.namespace, Name: a.workspace()}, workspace)
	if !found {
		return nil, err
	}
	return workspace, nil
}

// owner reads the metadata of the WorkflowRun that the Run names as its controller; nil when there is none.
//
// The API server may answer from its watch cache, which is behind, usually by milliseconds: a WorkflowRun of a thousand steps takes it
// long to read and to write out, once for each of its Runs. What is not there as expected is read anew. Both reads together take as long
// as one may.
func (h *RunHandler) owner(ctx context.Context, a attempt) (*metav1.PartialObjectMetadata, error) {
	ref, isChild := ownerOf(a.run)
	if !isChild {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for _, version := range []string{"0", ""} {
		owner := &metav1.PartialObjectMetadata{}
		owner.SetGroupVersionKind(workflowsv1alpha1.GroupVersion.WithKind(workflowRunKind))
		found, err := h.read(ctx, types.NamespacedName{Namespace: a.namespace, Name: ref.Name}, owner,
			&client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: version}})
		if err != nil {
			return nil, err
		}
		if found && owner.UID == ref.UID {
			return owner, nil
		}
	}
	return nil, nil
}

// read reads an object. One that is not there, or of a kind that is not there, or that cannot be there, is not found and
// no error.
func (h *RunHandler) read(ctx context.Context, key types.NamespacedName, into client.Object, opts ...client.GetOption) (found bool, err error) {
	if !isName(key.Name) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	switch err := h.Live.Get(ctx, key, into, opts...); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", kindOf(into), key, err)
	default:
		return true, nil
	}
}

// kindOf is how the kind of an object that was to be read is told.
func kindOf(object client.Object) string {
	return cmp.Or(object.GetObjectKind().GroupVersionKind().Kind, fmt.Sprintf("%T", object))
}

// review asks the API server whether the caller may use the workspace. It is told all that it knows about the caller.
func (h *RunHandler) review(ctx context.Context, a attempt) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := reviewOf(a)
	if err := h.Reviews.Create(ctx, review); err != nil {
		return false, fmt.Errorf("reviewing the right of %s to use PersistentWorkspace %s: %w", a.caller.Username, a.workspace(), err)
	}
	if message := review.Status.EvaluationError; message != "" {
		ctrl.LoggerFrom(ctx).Info("Reviewed access in part", "problem", message, "allowed", review.Status.Allowed)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// reviewOf is the question that decides on a caller.
func reviewOf(a attempt) *authorizationv1.SubjectAccessReview {
	extra := make(map[string]authorizationv1.ExtraValue, len(a.caller.Extra))
	for key, values := range a.caller.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.caller.Username, Groups: a.caller.Groups, UID: a.caller.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.namespace, Verb: workspacesv1alpha1.VerbUse,
			Group: workspacesv1alpha1.GroupVersion.Group, Version: workspacesv1alpha1.GroupVersion.Version,
			Resource: workspacesv1alpha1.Resource, Subresource: workspacesv1alpha1.SubresourceUse, Name: a.workspace(),
		},
	}}
}
