// Package workflows holds the controller of the group workflows.kruntimes.io that executes WorkflowRuns.
//
// A reconciliation loads the WorkflowRun and its children, calculates the desired status and one action from them,
// applies the action, and patches the status once. All that decides is pure: see calculate.go. The controller knows
// Runs, and neither Pods nor bytes.
package workflows
