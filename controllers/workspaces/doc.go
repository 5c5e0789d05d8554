// Package workspaces holds the controller of the group workspaces.kruntimes.io: it binds each PersistentWorkspace to a Pod,
// and looks after it to its end.
//
//	                +---------- deleted: the finalizer goes ----------------------------> (gone)
//	                |                                                                       ^
//	Pending --a ready Pod--> Bound --deleted, or unused for its time to live--> Released --+  runtimed has removed the
//	                           |                                                   |           directory, and the finalizer
//	                           +--the Pod is gone--> Lost <--the Pod is gone-------+
//	                                                   |
//	                                                   +-- deleted: the finalizer goes --> (gone)
//
// A reconciliation loads the workspace and what it depends on, calculates the desired status and one action from that,
// confirms an action that cannot be taken back by a live read, applies it, and patches the status once. All that decides
// is pure: see calculate.go. The controller is the only writer of the status, and touches no file: runtimed does.
package workspaces
