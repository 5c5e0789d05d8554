package graph

import "slices"

// components returns the strongly connected components of the jobs: the largest groups in which each job needs each
// other, however indirectly. It is Tarjan's algorithm.
func components(jobs []string, needs map[string][]string) [][]string {
	t := tarjan{needs: needs, index: map[string]int{}, low: map[string]int{}, open: map[string]bool{}}
	for _, job := range jobs {
		if _, seen := t.index[job]; !seen {
			t.visit(job)
		}
	}
	return t.components
}

type tarjan struct {
	needs map[string][]string
	// index is the order in which jobs were visited, from 0.
	index map[string]int
	// low is the smallest index that is known to be reachable from a job, within its component.
	low map[string]int
	// path holds the visited jobs whose component is not complete, and open says the same by name.
	path       []string
	open       map[string]bool
	components [][]string
}

func (t *tarjan) visit(job string) {
	t.index[job] = len(t.index)
	t.low[job] = t.index[job]
	t.path = append(t.path, job)
	t.open[job] = true
	for _, need := range t.needs[job] {
		if _, seen := t.index[need]; !seen {
			t.visit(need)
			t.low[job] = min(t.low[job], t.low[need])
		} else if t.open[need] {
			t.low[job] = min(t.low[job], t.index[need])
		}
	}
	if t.low[job] < t.index[job] {
		return
	}
	first := slices.Index(t.path, job)
	component := slices.Clone(t.path[first:])
	t.path = t.path[:first]
	for _, member := range component {
		t.open[member] = false
	}
	t.components = append(t.components, component)
}
