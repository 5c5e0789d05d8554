package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "workspaces.kruntimes.io", Version: "v1alpha1"}

// schemeBuilder collects the functions that add this group to a scheme.
var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers PersistentWorkspace, and the list and options kinds of its group, in a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PersistentWorkspace{}, &PersistentWorkspaceList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
