// Command operator-verify checks an OLM bundle with all validators of github.com/operator-framework/api that concern bundles: those
// of the command of that name, good practices and the catalog's among them. A warning is a failure as well.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "operator-verify: want the directory of a bundle")
		os.Exit(2)
	}
	if err := verify(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "operator-verify:", err)
		os.Exit(1)
	}
}

func verify(dir string) error {
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	validators := validation.DefaultBundleValidators.WithValidators(validation.GoodPracticesValidator, validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator, validation.StandardCategoriesValidator, validation.ObjectValidator, validation.OperatorGroupValidator)
	results := validators.Validate(bundle.ObjectsToValidate()...)
	found := 0
	for _, result := range results {
		for _, problem := range append(append([]errors.Error{}, result.Errors...), result.Warnings...) {
			if isFalseAlarm(problem) {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", result.Name, problem.Level, problem.Error())
			found++
		}
	}
	if found > 0 {
		return fmt.Errorf("%d problems in %s", found, dir)
	}
	fmt.Printf("operator-verify: %s is in order: %d results of %d validators\n", dir, len(results), len(validators))
	return nil
}

// isFalseAlarm tells whether a warning is about rights to events. The validator knows resources by their name only, and takes
// those of events.k8s.io/v1, and of the core group, for the beta that Kubernetes 1.25 removed. It lists all resources that it
// means, so that no other one passes with them.
func isFalseAlarm(problem errors.Error) bool {
	const about = "Migrate the API(s) for "
	_, list, found := strings.Cut(problem.Detail, about)
	return found && problem.Level == errors.LevelWarn && strings.HasPrefix(list, "events: ([") && strings.Count(list, ": ([") == 1
}
