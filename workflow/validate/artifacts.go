package validate

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// reservedDirectory, below the working directory, is ours.
const reservedDirectory = ".kruntimes"

// checkArtifacts checks the artifacts that a step of the job with the given name gets; in an Action the name is empty.
func (c *checker) checkArtifacts(path *field.Path, job string, artifacts []workflowsv1alpha1.StepArtifact) {
	if len(artifacts) > corev1alpha1.MaxArtifacts {
		c.add(field.TooMany(path, len(artifacts), corev1alpha1.MaxArtifacts))
	}
	const inputsOnly = "artifacts see inputs only"
	sees := view{inputs: c.declaredInput, steps: hidden(inputsOnly), jobs: hidden(inputsOnly)}
	taken := make(map[string]bool, len(artifacts))
	for i, a := range artifacts {
		path := path.Index(i)
		if from, known := c.checkText(path.Child("from"), a.From, MaxPathLength, sees); known {
			c.checkFrom(path.Child("from"), job, from)
		}
		target, known := c.checkText(path.Child("path"), a.Path, MaxPathLength, sees)
		if !known {
			target = a.Path
		}
		if taken[target] {
			c.add(field.Duplicate(path.Child("path"), target))
		}
		taken[target] = true
		if wrong := cmp.Or(wrongPath(a.Path), wrongPath(target)); wrong != "" {
			c.add(field.Invalid(path.Child("path"), target, wrong))
		}
	}
}

// ArtifactSource takes apart where a step gets an artifact from: jobs.<job>.artifacts.<name>, in which the name may have
// dots. Text of any other shape is not ok.
func ArtifactSource(from string) (job, name string, ok bool) {
	rest, isJob := strings.CutPrefix(from, "jobs.")
	job, rest, _ = strings.Cut(rest, ".")
	name, isArtifact := strings.CutPrefix(rest, "artifacts.")
	return job, name, isJob && isArtifact && namePattern.MatchString(job)
}

// checkFrom checks where an artifact comes from, when all expressions are gone.
func (c *checker) checkFrom(path *field.Path, job, from string) {
	other, name, ok := ArtifactSource(from)
	switch {
	case !ok:
		c.add(field.Invalid(path, from, "must be jobs.<job>.artifacts.<name>"))
	case name == "" || name == "." || name == ".." || strings.Contains(name, "/") || len(name) > maxArtifactName:
		c.addf(field.ErrorTypeInvalid, path, from, "the name of an artifact must have 1 to %d bytes and no '/'", maxArtifactName)
	case c.kind == "Action":
		// Whose job calls it, and what that needs, is not known here.
	default:
		if why := c.notNeeded(job, other); why != "" {
			c.add(field.Invalid(path, from, why))
		}
	}
}

// wrongPath says why a file cannot be copied to path, or is empty. The schema says the same in a pattern.
func wrongPath(path string) string {
	parts := strings.Split(path, "/")
	if slices.ContainsFunc(parts, func(part string) bool { return part == "" || part == "." || part == ".." }) {
		return `must be relative to the working directory, without ".", ".." and empty parts`
	}
	if parts[0] == reservedDirectory {
		return "must not lie below " + reservedDirectory
	}
	return ""
}
