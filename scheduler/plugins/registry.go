// Package plugins names every plugin of the scheduler, and the profile in which they run.
package plugins

import (
	"fmt"

	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/plugins/capacity"
	"kruntimes.io/kruntimes/scheduler/plugins/leastloaded"
	"kruntimes.io/kruntimes/scheduler/plugins/readiness"
	"kruntimes.io/kruntimes/scheduler/plugins/runaffinity"
	"kruntimes.io/kruntimes/scheduler/plugins/workspace"
)

// Registry returns the constructor of every plugin by its name.
func Registry() map[string]func() framework.Plugin {
	return map[string]func() framework.Plugin{
		readiness.Name:   func() framework.Plugin { return readiness.New() },
		workspace.Name:   func() framework.Plugin { return workspace.New() },
		runaffinity.Name: func() framework.Plugin { return runaffinity.New() },
		capacity.Name:    func() framework.Plugin { return capacity.New() },
		leastloaded.Name: func() framework.Plugin { return leastloaded.New() },
	}
}

// Use names a plugin of a profile, with the weight of its scores.
type Use struct {
	Name   string
	Weight int64
}

// DefaultProfile lists the plugins in the order in which they are called. A Run whose Runtime does not exist is told
// that first; then what can never be placed; then what has to wait, where the company on a Pod counts before its room.
// One preference that a Pod meets and others do not counts for more than all the room that they have.
func DefaultProfile() []Use {
	return []Use{
		{Name: readiness.Name},
		{Name: workspace.Name},
		{Name: runaffinity.Name, Weight: 2},
		{Name: capacity.Name},
		{Name: leastloaded.Name, Weight: 1},
	}
}

// Build makes the framework of a profile.
func Build(profile []Use) (*framework.Framework, error) {
	registry := Registry()
	enabled := make([]framework.Enabled, 0, len(profile))
	for _, use := range profile {
		construct, ok := registry[use.Name]
		if !ok {
			return nil, fmt.Errorf("profile names the plugin %q, which does not exist", use.Name)
		}
		enabled = append(enabled, framework.Enabled{Plugin: construct(), Weight: use.Weight})
	}
	built, err := framework.New(enabled)
	if err != nil {
		return nil, fmt.Errorf("building the profile: %w", err)
	}
	return built, nil
}
