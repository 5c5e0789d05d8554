// Package core decides on the creation of Runs where the schema cannot: who may execute in which PersistentWorkspace.
//
// RBAC on PersistentWorkspaces says who may read and change the object, not who may execute in its directory, and the
// scheduler and runtimed never learn who made a Run. So the question is put when a Run that names a workspace is created,
// and only then. The workspace must be there and belong to the Run's Runtime, and the caller must hold the verb "use" on
// persistentworkspaces/use by the workspace's name: the API server is asked in a SubjectAccessReview.
//
// The controller of WorkflowRuns holds no such right. Its ServiceAccount has one way in: a Run and a workspace that are
// both children of the same living WorkflowRun, for the same job. Nobody else gets to that way, whatever labels and owner
// references a Run carries, because it begins with the identity of the caller.
//
// What cannot be decided is refused. Decisions are functions of plain values (judge.go); reading and asking is apart from
// them (handler.go).
package core
