// Package core holds the controllers of the group kruntimes.io.
//
// The Runtime controller keeps a Deployment, a ServiceAccount and a RoleBinding for every Runtime and reports in the
// Runtime's status what has become of the Pods. It never looks at Runs. Its files are runtime_*.go, podtemplate.go and
// security.go (what a Pod looks like), and podtrouble.go (why a Pod does not start).
//
// The Run lifecycle controller ends Runs that nobody else can end: those that are cancelled before they have a Pod, and
// those whose Pod is gone. It also deletes finished Runs after their time to live. Its files are run_*.go.
package core
