package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kruntimes.io/kruntimes/config/selfinstall"
)

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
// replica does so at its start: a new version brings its policies in before an old leader has gone. All are attempted.
func (k *policyKeeper) install(ctx context.Context) error {
	owner, err := k.owner(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, policy := range k.want {
		errs = append(errs, k.restore(ctx, policy, owner))
	}
	if owner != nil {
		for _, name := range selfinstall.ClusterRoles {
			errs = append(errs, k.adopt(ctx, name, *owner))
		}
	}
	return errors.Join(errs...)
}

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

// restore makes one policy what it should be. An owner is set where there is one.
func (k *policyKeeper) restore(ctx context.Context, want *unstructured.Unstructured, owner *metav1.OwnerReference) error {
	what := want.GetKind() + " " + want.GetName()
	have := policyOf(want.GroupVersionKind())
	err := k.live.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
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
// field that somebody added, such as a condition, can put a policy out of force. Labels and owners of others are left alone.
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

// withOwner puts owner in the place of the one before, which was another ClusterRole.
func withOwner(references []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	others := slices.DeleteFunc(slices.Clone(references), func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.APIVersion == owner.APIVersion
	})
	return append(others, owner)
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

// Reconcile restores what is not as it should be. It is asked about all of them at once, whichever was changed.
func (k *policyKeeper) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	var errs []error
	for _, policy := range k.want {
		have := policyOf(policy.GroupVersionKind())
		err := k.cached.Get(ctx, client.ObjectKeyFromObject(policy), have)
		switch {
		case err == nil && planPolicy(policy, have, nil) == nil:
			continue
		case err == nil:
			errs = append(errs, k.restore(ctx, policy, nil)) // Whoever owns it owns it still.
			continue
		case !apierrors.IsNotFound(err):
			errs = append(errs, err)
			continue
		}
		owner, err := k.owner(ctx)
		if err == nil {
			err = k.restore(ctx, policy, owner)
		}
		errs = append(errs, err)
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// ready fails while a policy is not there.
func (k *policyKeeper) ready(request *http.Request) error {
	for _, policy := range k.want {
		have := policyOf(policy.GroupVersionKind())
		if err := k.cached.Get(request.Context(), client.ObjectKeyFromObject(policy), have); err != nil {
			return fmt.Errorf("%s %s does not stand: %w", policy.GetKind(), policy.GetName(), err)
		}
	}
	return nil
}
