package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/groups"
)

// PolicyOptions say whether the manager looks after the admission policies and the FlowSchema, for installations whose
// installer cannot, such as OLM.
type PolicyOptions struct {
	// Install creates what is missing before anything else starts, restores what is changed or deleted later, and has the
	// manager be ready only while everything is there. It goes with all groups. Default: false.
	Install bool
	// OwnerSelector selects ClusterRoles by their labels. The first of them by name becomes an owner of the policies, and of the
	// ClusterRoles that users bind, so that the garbage collector removes them with it. Where none is selected nothing is
	// created. Empty: nobody owns them, and they stay.
	OwnerSelector string
}

// AddFlags makes the options settable on a command line, with their defaults.
func (o *PolicyOptions) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Install, "install-policies", false, "Create the admission policies and the FlowSchema, and restore them when they are changed")
	flags.StringVar(&o.OwnerSelector, "policy-owner-selector", "", "Label `selector` of the ClusterRole with which these are removed (default: they stay)")
}

// validate reports all that is wrong at once.
func (o *PolicyOptions) validate(enabled []string) error {
	if !o.Install {
		return nil
	}
	var errs []error
	if len(enabled) > 0 && len(enabled) < len(groups.All()) {
		errs = append(errs, errors.New("--install-policies goes with all groups"))
	}
	if _, err := labels.Parse(o.OwnerSelector); err != nil {
		errs = append(errs, fmt.Errorf("--policy-owner-selector: %w", err))
	}
	return errors.Join(errs...)
}

// policyKinds are the kinds of what the manager looks after.
var policyKinds = []schema.GroupVersionKind{
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
	flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"),
}

// policyOf is an empty object of a kind.
func policyOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// policyCache says what the cache holds of them. One that loses its label is lost to the cache, and restored like one that was
// deleted.
func policyCache() map[client.Object]cache.ByObject {
	byObject := map[client.Object]cache.ByObject{}
	for _, kind := range policyKinds {
		byObject[policyOf(kind)] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy})}
	}
	return byObject
}

// addPolicies installs the policies, has the leader keep them, and every replica be ready only while they are there.
func addPolicies(ctx context.Context, mgr ctrl.Manager, options PolicyOptions) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client for the policies: %w", err)
	}
	keeper, err := newPolicyKeeper(direct, options)
	if err != nil {
		return err
	}
	if err := keeper.install(ctx); err != nil {
		return fmt.Errorf("installing the policies: %w", err)
	}
	keeper.cached = mgr.GetCache()
	all := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "policies"}}}
	controller := ctrl.NewControllerManagedBy(mgr).Named("policies").WatchesRawSource(source.Func(
		func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(all[0]) // A new leader looks once, also where nothing is left to tell it of.
			return nil
		}))
	for _, kind := range policyKinds {
		controller = controller.Watches(policyOf(kind), handler.EnqueueRequestsFromMapFunc(
			func(context.Context, client.Object) []reconcile.Request { return all }))
	}
	if err := controller.Complete(keeper); err != nil {
		return fmt.Errorf("setting up the controller of policies: %w", err)
	}
	if err := mgr.AddReadyzCheck("policies", keeper.ready); err != nil {
		return fmt.Errorf("adding the readiness probe of policies: %w", err)
	}
	return nil
}
