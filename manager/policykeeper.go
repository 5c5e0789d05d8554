package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kruntimes.io/kruntimes/config/selfinstall"
)

// adoptionInterval is how often the leader looks for ClusterRoles without their owner.
const adoptionInterval = 10 * time.Minute

// policyKeeper keeps policies as they should be.
type policyKeeper struct {
	// live reads what the API server holds now, cached what the cache does; writer writes.
	live, cached client.Reader
	writer       client.Writer
	// want are the policies. owners selects who owns them; nil: nobody.
	want   []*unstructured.Unstructured
	owners labels.Selector
}

// newPolicyKeeper makes a keeper without a cache.
func newPolicyKeeper(c client.Client, options PolicyOptions) (*policyKeeper, error) {
	want, err := selfinstall.Policies()
	if err != nil {
		return nil, err
	}
	k := &policyKeeper{live: c, cached: c, writer: c, want: want}
	if options.OwnerSelector != "" {
		if k.owners, err = labels.Parse(options.OwnerSelector); err != nil {
			return nil, fmt.Errorf("--policy-owner-selector: %w", err)
		}
	}
	return k, nil
}

// install brings every policy in place, and has them and the ClusterRoles of the bundle owned by the present owner. Every
// replica does so at its start: a new version brings its policies in before an old leader has gone. All are attempted. What
// another replica was faster with is looked at again. A ClusterRole that cannot be adopted yet is left to the leader: nothing but
// its removal depends on that.
func (k *policyKeeper) install(ctx context.Context) error {
	owner, err := k.owner(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, policy := range k.want {
		errs = append(errs, retry.OnError(retry.DefaultBackoff, isOvertaken, func() error { return k.restore(ctx, policy, owner) }))
	}
	if err := k.adoptAll(ctx, owner); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "ClusterRoles were not adopted, and would stay when the installation is removed")
	}
	return errors.Join(errs...)
}

// isOvertaken tells whether somebody else has written the object meanwhile.
func isOvertaken(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }

// owner finds the ClusterRole that owns the policies; nil when nobody is to. One that is being deleted owns nothing any more.
func (k *policyKeeper) owner(ctx context.Context) (*metav1.OwnerReference, error) {
	if k.owners == nil {
		return nil, nil
	}
	var roles rbacv1.ClusterRoleList
	if err := k.live.List(ctx, &roles, client.MatchingLabelsSelector{Selector: k.owners}); err != nil {
		return nil, fmt.Errorf("finding the owner of the policies: %w", err)
	}
	present := slices.DeleteFunc(roles.Items, func(role rbacv1.ClusterRole) bool { return role.DeletionTimestamp != nil })
	if len(present) == 0 {
		return nil, fmt.Errorf("no ClusterRole %s is there to own the policies: without one they would stay for ever", k.owners)
	}
	first := slices.MinFunc(present, func(a, b rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: first.Name, UID: first.UID}, nil
}

// restore makes one policy what it should be. The owner is added where it was found; without it nothing is created that should have one.
func (k *policyKeeper) restore(ctx context.Context, want *unstructured.Unstructured, owner *metav1.OwnerReference) error {
	what := want.GetKind() + " " + want.GetName()
	have := policyOf(want.GroupVersionKind())
	err := k.live.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		if owner == nil && k.owners != nil {
			return nil // That there is none was reported.
		}
		made := want.DeepCopy()
		if owner != nil {
			made.SetOwnerReferences([]metav1.OwnerReference{*owner})
		}
		if err := k.writer.Create(ctx, made); err != nil {
			return fmt.Errorf("creating %s: %w", what, err)
		}
		logr.FromContextOrDiscard(ctx).Info("Created policy", "kind", want.GetKind(), "name", want.GetName())
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	changed := planPolicy(want, have, owner)
	if changed == nil {
		return nil
	}
	if err := k.writer.Update(ctx, changed); err != nil {
		return fmt.Errorf("restoring %s: %w", what, err)
	}
	logr.FromContextOrDiscard(ctx).Info("Restored policy", "kind", want.GetKind(), "name", want.GetName())
	return nil
}

// planPolicy is what a policy should be changed to; nil where it is as it should be. Its spec is replaced as a whole, because a
// field that somebody added, such as a condition, can put a policy out of force. Labels and owners of others are left alone, and all
// owners where owner is nil.
func planPolicy(want, have *unstructured.Unstructured, owner *metav1.OwnerReference) *unstructured.Unstructured {
	planned := have.DeepCopy()
	planned.Object["spec"] = want.DeepCopy().Object["spec"]
	merged := planned.GetLabels()
	if merged == nil {
		merged = map[string]string{}
	}
	for key, value := range want.GetLabels() {
		merged[key] = value
	}
	planned.SetLabels(merged)
	if owner != nil {
		planned.SetOwnerReferences(withOwner(planned.GetOwnerReferences(), *owner))
	}
	if equality.Semantic.DeepEqual(planned.Object, have.Object) {
		return nil
	}
	return planned
}

// withOwner adds owner where it is missing. Those of other versions stay beside it: the garbage collector takes away what is gone,
// and deletes what has no owner left. So it does not matter which version writes last.
func withOwner(references []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	if slices.ContainsFunc(references, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
		return references
	}
	return append(slices.Clone(references), owner)
}

// adoptAll has the ClusterRoles of the bundle removed with the owner, where there is one. All are attempted.
func (k *policyKeeper) adoptAll(ctx context.Context, owner *metav1.OwnerReference) error {
	if owner == nil {
		return nil
	}
	var errs []error
	for _, name := range selfinstall.ClusterRoles {
		errs = append(errs, k.adopt(ctx, name, *owner))
	}
	return errors.Join(errs...)
}

// adopt has a ClusterRole of the bundle removed with the owner. One that is not there is left to whoever installs the bundle.
func (k *policyKeeper) adopt(ctx context.Context, name string, owner metav1.OwnerReference) error {
	var role rbacv1.ClusterRole
	switch err := k.live.Get(ctx, types.NamespacedName{Name: name}, &role); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading ClusterRole %s: %w", name, err)
	}
	before := role.DeepCopy()
	role.OwnerReferences = withOwner(role.OwnerReferences, owner)
	if equality.Semantic.DeepEqual(before.OwnerReferences, role.OwnerReferences) {
		return nil
	}
	if err := k.writer.Patch(ctx, &role, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adopting ClusterRole %s: %w", name, err)
	}
	return nil
}

// Reconcile restores what is not as it should be. It is asked about all of them at once, whichever was changed. ClusterRoles are
// not watched: they are looked at now and then, because OLM takes their owners off when it updates them, in no order with the
// start of a manager.
func (k *policyKeeper) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	owner, noOwner := k.owner(ctx)
	errs := []error{noOwner}
	for _, policy := range k.want {
		have := policyOf(policy.GroupVersionKind())
		err := k.cached.Get(ctx, client.ObjectKeyFromObject(policy), have)
		switch {
		case err == nil && planPolicy(policy, have, owner) == nil:
		case err == nil || apierrors.IsNotFound(err):
			errs = append(errs, k.restore(ctx, policy, owner))
		default:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, k.adoptAll(ctx, owner))...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: adoptionInterval}, nil
}

// ready fails while a policy is not there. What it says does not matter here: while two versions are there, the leader restores its
// own, and a new replica that was not ready because of that would never be let to lead.
func (k *policyKeeper) ready(request *http.Request) error {
	for _, policy := range k.want {
		have := policyOf(policy.GroupVersionKind())
		if err := k.cached.Get(request.Context(), client.ObjectKeyFromObject(policy), have); err != nil {
			return fmt.Errorf("%s %s does not stand: %w", policy.GetKind(), policy.GetName(), err)
		}
	}
	return nil
}
