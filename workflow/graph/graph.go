// Package graph orders the jobs of a definition by their needs. It is pure.
package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnknownNeedError tells that a job needs something that is no job.
type UnknownNeedError struct {
	// Job needs Need, which does not exist.
	Job, Need string
}

func (e *UnknownNeedError) Error() string {
	return fmt.Sprintf("job %q needs %q, which is not a job", e.Job, e.Need)
}

// CycleError tells that jobs need each other, so that none of them can start.
type CycleError struct {
	// Path goes from each job to one that it needs. It starts and ends with the job of the cycle that sorts first.
	Path []string
}

func (e *CycleError) Error() string {
	if len(e.Path) == 2 {
		return "the job needs itself: " + e.String()
	}
	return "the jobs need each other in a circle: " + e.String()
}

// String gives the path alone, as in "build -> test -> build".
func (e *CycleError) String() string { return strings.Join(e.Path, " -> ") }

// Order returns all jobs, each behind those that it needs; where that leaves a choice, the name that sorts first comes
// first. A need that is listed twice counts once.
//
// Needs map jobs to the jobs they need. The error joins an UnknownNeedError for each need that is no key, sorted by job
// and need, and then a CycleError for each group of jobs that all need each other, however indirectly, sorted by path.
// Of several cycles in a group it shows a shortest one through the job that sorts first.
func Order(needs map[string][]string) ([]string, error) {
	var problems []error
	jobs := slices.Sorted(maps.Keys(needs))
	known := make(map[string][]string, len(needs))
	for _, job := range jobs {
		sorted := slices.Compact(slices.Sorted(slices.Values(needs[job])))
		known[job] = slices.DeleteFunc(sorted, func(need string) bool {
			_, exists := needs[need]
			if !exists {
				problems = append(problems, &UnknownNeedError{Job: job, Need: need})
			}
			return !exists
		})
	}
	order := sortByNeeds(jobs, known)
	if len(order) < len(jobs) {
		for _, cycle := range cycles(jobs, known) {
			problems = append(problems, cycle)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return order, nil
}

// sortByNeeds is Kahn's algorithm. It leaves out the jobs on cycles, and all that need them.
func sortByNeeds(jobs []string, needs map[string][]string) []string {
	waitsFor := make(map[string]int, len(jobs))
	neededBy := make(map[string][]string, len(jobs))
	var ready []string
	for _, job := range jobs {
		waitsFor[job] = len(needs[job])
		for _, need := range needs[job] {
			neededBy[need] = append(neededBy[need], job)
		}
		if len(needs[job]) == 0 {
			ready = append(ready, job)
		}
	}
	order := make([]string, 0, len(jobs))
	for len(ready) > 0 {
		job := ready[0]
		ready = ready[1:]
		order = append(order, job)
		for _, next := range neededBy[job] {
			if waitsFor[next]--; waitsFor[next] == 0 {
				place, _ := slices.BinarySearch(ready, next)
				ready = slices.Insert(ready, place, next)
			}
		}
	}
	return order
}

// cycles returns one cycle of each strongly connected component that has any, sorted by path.
func cycles(jobs []string, needs map[string][]string) []*CycleError {
	var found []*CycleError
	for _, component := range components(jobs, needs) {
		first := slices.Min(component)
		if len(component) > 1 || slices.Contains(needs[first], first) {
			found = append(found, &CycleError{Path: shortestCycle(first, needs)})
		}
	}
	slices.SortFunc(found, func(a, b *CycleError) int { return cmp.Compare(a.Path[0], b.Path[0]) })
	return found
}

// shortestCycle returns the shortest way from job back to itself, and of several the one that sorts first. There must be
// one.
func shortestCycle(job string, needs map[string][]string) []string {
	cameFrom := map[string]string{}
	queue := []string{job}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, need := range needs[at] {
			if need == job {
				path := []string{job}
				for ; at != job; at = cameFrom[at] {
					path = append(path, at)
				}
				path = append(path, job)
				slices.Reverse(path)
				return path
			}
			if _, seen := cameFrom[need]; !seen {
				cameFrom[need] = at
				queue = append(queue, need)
			}
		}
	}
	return nil
}
