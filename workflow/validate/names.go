package validate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

var (
	// namePattern is the shape of names within a definition.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$`)
	// envNamePattern is the shape of names of variables, as in a Run.
	envNamePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	// objectNamePattern is the shape of names of objects.
	objectNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

// reservedEnv starts the names of the variables that runtimed sets.
const reservedEnv = "KRUNTIME_"

// checkName checks the name of a job, step, input or output, which is what.
func (c *checker) checkName(path *field.Path, what, name string, maxLength int) {
	if len(name) > maxLength || !namePattern.MatchString(name) {
		c.addf(field.ErrorTypeInvalid, path, name,
			"the name of %s must be letters, digits, '-' and '_', with a letter or digit at both ends, up to %d characters", withArticle(what), maxLength)
	}
}

// withArticle puts the indefinite article before a noun.
func withArticle(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiouAEIOU") {
		return "an " + noun
	}
	return "a " + noun
}

// checkObjectName checks the name of an object of the same namespace.
func (c *checker) checkObjectName(path *field.Path, kind, name string) {
	if len(name) > MaxObjectNameLength || !objectNamePattern.MatchString(name) {
		c.addf(field.ErrorTypeInvalid, path, name, "must be the name of %s of the same namespace: lower-case letters, digits, '-' and '.', up to %d characters",
			withArticle(kind), MaxObjectNameLength)
	}
}

// checkEnv checks the variables of a job or step.
func (c *checker) checkEnv(path *field.Path, env map[string]workflowsv1alpha1.EnvValue, sees view) {
	checkEntries(c, path, env, maxEntries)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		path := path.Key(name)
		switch {
		case len(name) > maxEnvName || !envNamePattern.MatchString(name):
			c.addf(field.ErrorTypeInvalid, path, name,
				"the name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to %d characters", maxEnvName)
		case strings.HasPrefix(name, reservedEnv):
			c.addf(field.ErrorTypeInvalid, path, name, "names that start with %s are reserved", reservedEnv)
		}
		if strings.ContainsRune(string(env[name]), 0) {
			c.addf(field.ErrorTypeInvalid, path, "", "a variable cannot hold a NUL byte")
		}
		c.checkText(path, string(env[name]), MaxValueLength, sees)
	}
}

// checkWith checks the inputs that a call hands over. Whether the called definition has them is not known here.
func (c *checker) checkWith(path *field.Path, with map[string]workflowsv1alpha1.InputValue, sees view) {
	checkEntries(c, path, with, workflowsv1alpha1.MaxInputs)
	for _, name := range slices.Sorted(maps.Keys(with)) {
		path := path.Key(name)
		c.checkName(path, "input", name, workflowsv1alpha1.MaxNameLength)
		c.checkText(path, string(with[name]), MaxValueLength, sees)
	}
}

// checkEntries bounds a map.
func checkEntries[V any](c *checker, path *field.Path, entries map[string]V, most int) {
	if len(entries) > most {
		c.add(field.TooMany(path, len(entries), most))
	}
}
