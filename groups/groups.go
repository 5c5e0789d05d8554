// Package groups names the API groups that an installation can enable, and says which of them need others.
package groups

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// Core is kruntimes.io: Runtime and Run.
	Core = "core"
	// Workspaces is workspaces.kruntimes.io: PersistentWorkspace.
	Workspaces = "workspaces"
	// Workflows is workflows.kruntimes.io: Workflow, WorkflowRun and Action.
	Workflows = "workflows"
)

// All returns all groups of this version, each behind those that it needs.
func All() []string { return []string{Core, Workspaces, Workflows} }

// needs are the groups to whose kinds those of a group refer.
func needs(group string) []string {
	switch group {
	case Workspaces:
		return []string{Core}
	case Workflows:
		return []string{Core, Workspaces}
	}
	return nil
}

// Validate refuses what the flag --groups must not hold: groups that do not exist, and those that need a group which is not
// enabled. It reports all that is wrong at once.
func Validate(enabled []string) error {
	var errs []error
	for _, group := range enabled {
		if !slices.Contains(All(), group) {
			errs = append(errs, fmt.Errorf("--groups: %q is not one of %s", group, strings.Join(All(), ", ")))
		}
		needed := needs(group)
		missing := slices.DeleteFunc(slices.Clone(needed), func(g string) bool { return slices.Contains(enabled, g) })
		if len(missing) > 0 {
			errs = append(errs, fmt.Errorf("--groups: %s needs %s: use --groups=%s", group, strings.Join(missing, " and "),
				strings.Join(append(needed, group), ",")))
		}
	}
	return errors.Join(errs...)
}
