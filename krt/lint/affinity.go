package lint

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// selectors returns all that is wrong with the label selectors of an affinity. The schema cannot check the keys of matchLabels.
func selectors(affinity *corev1alpha1.Affinity) field.ErrorList {
	if affinity == nil {
		return nil
	}
	path := field.NewPath("spec", "affinity")
	return append(direction(path.Child("runAffinity"), affinity.RunAffinity), direction(path.Child("runAntiAffinity"), affinity.RunAntiAffinity)...)
}

func direction(path *field.Path, rules *corev1alpha1.RunAffinity) field.ErrorList {
	if rules == nil {
		return nil
	}
	var errs field.ErrorList
	check := func(path *field.Path, term *corev1alpha1.RunAffinityTerm) {
		errs = append(errs, metav1validation.ValidateLabelSelector(&term.LabelSelector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("labelSelector"))...)
	}
	for i := range rules.Required {
		check(path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i), &rules.Required[i])
	}
	for i := range rules.Preferred {
		check(path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("runAffinityTerm"), &rules.Preferred[i].Term)
	}
	return errs
}
