package workspaces

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// permutations returns the orders in which some things can be done.
func permutations(things []string) [][]string {
	if len(things) <= 1 {
		return [][]string{things}
	}
	var all [][]string
	for i, first := range things {
		rest := append(append([]string(nil), things[:i]...), things[i+1:]...)
		for _, p := range permutations(rest) {
			all = append(all, append([]string{first}, p...))
		}
	}
	return all
}

// TestDeletionInAnyOrderEnds deletes a workspace, its Pod, its Runtime and an active Run of it in each order. Nobody collects
// garbage here, so what a deletion takes along elsewhere is one of the others: that of a WorkflowRun its workspaces and Runs,
// that of a Runtime its Pods, that of a namespace all of them.
func TestDeletionInAnyOrderEnds(t *testing.T) {
	shared.StartManager(t)
	for _, order := range permutations([]string{"workspace", "Pod", "Runtime", "Run"}) {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			t.Parallel()
			ns := shared.Namespace(t)
			pod := bind(t, ns)
			startJanitor(t, pod)
			run := newRun(ns, "r", "ws")
			shared.Create(t, run)
			assign(t, run, pod)
			objects := map[string]client.Object{"workspace": newWorkspace(ns, "ws"), "Pod": pod, "Runtime": newRuntime(ns, "sh"), "Run": run}
			for _, name := range order {
				shared.Delete(t, objects[name])
			}
			for _, name := range order {
				awaitGone(t, objects[name])
			}
		})
	}
}
