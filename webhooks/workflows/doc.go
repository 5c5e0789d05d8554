// Package workflows gives early words: a Workflow, an Action or a WorkflowRun that can never work by itself is refused when it
// is created, or when its spec is changed, with all that is wrong with it.
//
// It decides nothing that somebody relies on. The API server asks with failurePolicy Ignore, and the controllers say the same
// of whatever it lets through, in the same words: those of workflow/validate. So what cannot be decided here is admitted.
// What a definition calls is not looked at: definitions may be applied in any order.
package workflows
