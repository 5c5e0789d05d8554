package graph

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	cases := map[string]struct {
		needs  map[string][]string
		want   []string
		errors []error
	}{
		"no jobs": {needs: nil, want: []string{}},
		"independent jobs by name": {
			needs: map[string][]string{"c": nil, "a": nil, "b": {}},
			want:  []string{"a", "b", "c"},
		},
		"a chain against the alphabet": {
			needs: map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil},
			want:  []string{"c", "b", "a"},
		},
		"a diamond": {
			needs: map[string][]string{"deploy": {"unit", "lint"}, "unit": {"build"}, "lint": {"build"}, "build": nil},
			want:  []string{"build", "lint", "unit", "deploy"},
		},
		"a job that becomes ready late but sorts first comes next": {
			needs: map[string][]string{"a": {"b"}, "b": nil, "c": nil},
			want:  []string{"b", "a", "c"},
		},
		"a need that is listed twice counts once": {
			needs: map[string][]string{"a": {"b", "b"}, "b": nil},
			want:  []string{"b", "a"},
		},
		"all unknown needs, sorted, each once": {
			needs: map[string][]string{"test": {"lnit", "biuld", "biuld"}, "a": {"z"}, "build": nil},
			errors: []error{
				&UnknownNeedError{Job: "a", Need: "z"},
				&UnknownNeedError{Job: "test", Need: "biuld"},
				&UnknownNeedError{Job: "test", Need: "lnit"},
			},
		},
		"a job that needs itself": {
			needs:  map[string][]string{"a": {"a"}, "b": nil},
			errors: []error{&CycleError{Path: []string{"a", "a"}}},
		},
		"two jobs, from the one that sorts first": {
			needs:  map[string][]string{"test": {"build"}, "build": {"test"}},
			errors: []error{&CycleError{Path: []string{"build", "test", "build"}}},
		},
		"the path goes from a job to what it needs": {
			needs:  map[string][]string{"a": {"c"}, "c": {"b"}, "b": {"a"}},
			errors: []error{&CycleError{Path: []string{"a", "c", "b", "a"}}},
		},
		"jobs that only need a cycle, or are needed by it, are no part of it": {
			needs:  map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": nil},
			errors: []error{&CycleError{Path: []string{"b", "c", "b"}}},
		},
		"of several cycles in a group the shortest through the first job": {
			needs:  map[string][]string{"a": {"b", "c"}, "b": {"d"}, "c": {"a"}, "d": {"a", "d"}},
			errors: []error{&CycleError{Path: []string{"a", "c", "a"}}},
		},
		"of two as short the one that sorts first": {
			needs:  map[string][]string{"a": {"c", "b"}, "b": {"d"}, "c": {"d"}, "d": {"a"}},
			errors: []error{&CycleError{Path: []string{"a", "b", "d", "a"}}},
		},
		"one cycle for each group, behind the unknown needs": {
			needs: map[string][]string{"z": {"y"}, "y": {"z", "a"}, "a": {"b"}, "b": {"a", "nothing"}},
			errors: []error{
				&UnknownNeedError{Job: "b", Need: "nothing"},
				&CycleError{Path: []string{"a", "b", "a"}},
				&CycleError{Path: []string{"y", "z", "y"}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Order(tc.needs)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.errors, unjoin(err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	_, err := Order(map[string][]string{"build": {"test"}, "test": {"build", "lnit"}, "self": {"self"}})
	want := `job "test" needs "lnit", which is not a job
the jobs need each other in a circle: build -> test -> build
the job needs itself: self -> self`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	var cycle *CycleError
	if !errors.As(err, &cycle) {
		t.Errorf("errors.As finds no CycleError in %v", err)
	}
}

func TestOrderLeavesItsArgumentAlone(t *testing.T) {
	needs := map[string][]string{"a": {"c", "b", "c", "nothing"}, "b": nil, "c": nil}
	_, _ = Order(needs)
	want := map[string][]string{"a": {"c", "b", "c", "nothing"}, "b": nil, "c": nil}
	if diff := cmp.Diff(want, needs); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
}

// FuzzOrder holds Order against oracles that try everything.
func FuzzOrder(f *testing.F) {
	f.Add([]byte("ab"))
	f.Add([]byte("abbcca"))
	f.Add([]byte("aabbz."))
	f.Add([]byte(".a.b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		needs := map[string][]string{}
		for i := 0; i+1 < len(data) && i < 40; i += 2 {
			// Eight names, one of them empty and one that is seldom a job.
			job, need := nameOf(data[i]%7), nameOf(data[i+1]%8)
			needs[job] = append(needs[job], need)
			if _, exists := needs[need]; !exists && need != nameOf(7) {
				needs[need] = nil
			}
		}
		check(t, needs)
	})
}

// TestOrderOfRandomGraphs does the same as FuzzOrder without a fuzzer.
func TestOrderOfRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		needs := map[string][]string{}
		jobs := 1 + random.IntN(8)
		for job := range jobs {
			needs[nameOf(byte(job))] = nil
			for range random.IntN(4) {
				needs[nameOf(byte(job))] = append(needs[nameOf(byte(job))], nameOf(byte(random.IntN(jobs))))
			}
		}
		check(t, needs)
	}
}

func nameOf(n byte) string { return []string{"", "b", "c", "build", "test", "a", "z", "nothing"}[n] }

func check(t *testing.T, needs map[string][]string) {
	t.Helper()
	got, err := Order(needs)
	var unknown, cycles []string
	for _, e := range unjoin(err) {
		switch e := e.(type) { //nolint:errorlint // The joined errors are not wrapped.
		case *UnknownNeedError:
			unknown = append(unknown, e.Job+" needs "+e.Need)
		case *CycleError:
			checkCycle(t, needs, e.Path)
			cycles = append(cycles, e.Path[0])
		default:
			t.Fatalf("unexpected error %v", e)
		}
	}
	wantOrder, wantUnknown, wantCycles := oracle(needs)
	if diff := cmp.Diff(wantOrder, got); diff != "" {
		t.Errorf("order of %v (-want +got):\n%s", needs, diff)
	}
	if diff := cmp.Diff(wantUnknown, unknown); diff != "" {
		t.Errorf("unknown needs of %v (-want +got):\n%s", needs, diff)
	}
	if diff := cmp.Diff(wantCycles, cycles); diff != "" {
		t.Errorf("first jobs of the cycles of %v (-want +got):\n%s", needs, diff)
	}
}

func checkCycle(t *testing.T, needs map[string][]string, path []string) {
	t.Helper()
	for i := range len(path) - 1 {
		if !slices.Contains(needs[path[i]], path[i+1]) {
			t.Errorf("path %q of %v: %q does not need %q", path, needs, path[i], path[i+1])
		}
	}
	if len(path) < 2 || path[0] != path[len(path)-1] || path[0] != slices.Min(path) {
		t.Errorf("path %q of %v does not start and end with its first job", path, needs)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(path))); len(unique) != len(path)-1 {
		t.Errorf("path %q of %v comes to a job twice", path, needs)
	}
}

// oracle orders by trying the names again and again, and finds cycles from the transitive closure.
func oracle(needs map[string][]string) (order, unknown, firstOfCycles []string) {
	jobs := slices.Sorted(maps.Keys(needs))
	reach := map[[2]string]bool{}
	for _, job := range jobs {
		for _, need := range slices.Compact(slices.Sorted(slices.Values(needs[job]))) {
			if !slices.Contains(jobs, need) {
				unknown = append(unknown, job+" needs "+need)
			}
			reach[[2]string{job, need}] = true
		}
	}
	for _, via := range jobs {
		for _, from := range jobs {
			for _, to := range jobs {
				if reach[[2]string{from, via}] && reach[[2]string{via, to}] {
					reach[[2]string{from, to}] = true
				}
			}
		}
	}
	for i, job := range jobs {
		earlier := func(other string) bool { return reach[[2]string{job, other}] && reach[[2]string{other, job}] }
		if reach[[2]string{job, job}] && !slices.ContainsFunc(jobs[:i], earlier) {
			firstOfCycles = append(firstOfCycles, job)
		}
	}
	if unknown != nil || firstOfCycles != nil {
		return nil, unknown, firstOfCycles
	}
	order = []string{}
	for len(order) < len(jobs) {
		for _, job := range jobs {
			ready := !slices.ContainsFunc(needs[job], func(need string) bool { return !slices.Contains(order, need) })
			if ready && !slices.Contains(order, job) {
				order = append(order, job)
				break
			}
		}
	}
	return order, nil, nil
}

func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	return err.(interface{ Unwrap() []error }).Unwrap()
}

func BenchmarkOrder(b *testing.B) {
	needs := map[string][]string{}
	for i := range 64 {
		job := fmt.Sprintf("job-%02d", i)
		for j := range i {
			needs[job] = append(needs[job], fmt.Sprintf("job-%02d", j))
		}
		if i == 0 {
			needs[job] = nil
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		order, err := Order(needs)
		if err != nil || !strings.HasSuffix(order[63], "63") {
			b.Fatal(order, err)
		}
	}
}
