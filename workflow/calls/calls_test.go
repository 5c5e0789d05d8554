package calls

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func TestWorkflow(t *testing.T) {
	cases := map[string]struct {
		namespace *namespace
		want      []string
	}{
		"no calls": {namespace: drawn("a:")},
		"calls of calls": {
			namespace: drawn("a: b c", "b: d", "c: d", "d:"),
		},
		"a Workflow that calls itself": {
			namespace: drawn("a: a"),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "a": workflow call cycle: a -> a`},
		},
		"two that call each other": {
			namespace: drawn("a: b", "b: a"),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "b": workflow call cycle: a -> b -> a`},
		},
		"a cycle further down": {
			namespace: drawn("a: b", "b: c", "c: d", "d: c"),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "b": workflow call cycle: c -> d -> c`},
		},
		"a cycle that two calls lead into, each from its own side": {
			namespace: drawn("a: b c ok", "b: c", "c: b", "ok:"),
			want: []string{
				`spec.jobs[j00].uses: Invalid value: "b": workflow call cycle: b -> c -> b`,
				`spec.jobs[j01].uses: Invalid value: "c": workflow call cycle: c -> b -> c`,
			},
		},
		"a cycle behind what is missing": {
			namespace: drawn("a: b", "b: gone a"),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "b": workflow call cycle: a -> b -> a`},
		},
		"a Workflow that does not exist": {
			namespace: drawn("a: b gone", "b:"),
			want:      []string{`spec.jobs[j01].uses: Not found: "gone": there is no Workflow "gone" in this namespace`},
		},
		"one that does not exist further down, on every way to it": {
			namespace: drawn("a: b c", "b: c", "c: gone"),
			want: []string{
				`spec.jobs[j00].uses: Invalid value: "b": Workflow "b": spec.jobs[j00].uses: Workflow "c": spec.jobs[j00].uses: there is no Workflow "gone" in this namespace`,
				`spec.jobs[j01].uses: Invalid value: "c": Workflow "c": spec.jobs[j00].uses: there is no Workflow "gone" in this namespace`,
			},
		},
		"the rest of what is wrong further down is counted": {
			namespace: drawn("a: b", "b: gone lost c", "c: gone lost"),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "b": Workflow "b": spec.jobs[j00].uses: there is no Workflow "gone" in this namespace, and 2 more`},
		},
		"eight on a path": {namespace: renamed(chain(8))},
		"nine on a path": {
			namespace: renamed(chain(9)),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "w2": calls are nested 9 deep (a -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8 -> w9), and may be 8`},
		},
		"more than nine are not counted": {
			namespace: renamed(chain(200)),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "w2": calls are nested 9 deep (a -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8 -> w9), and may be 8`},
		},
		"the first path that is too deep": {
			namespace: drawn("a: b", "b: short c c2", "short:", "c: d", "c2: d", "d: e f", "e: short", "f: g", "g: h", "h: i short", "i: k", "k:"),
			want:      []string{`spec.jobs[j00].uses: Invalid value: "b": calls are nested 9 deep (a -> b -> c -> d -> f -> g -> h -> i -> k), and may be 8`},
		},
		"a deep one that also calls what is missing": {
			namespace: func() *namespace {
				n := renamed(chain(9))
				n.workflows["w2"] = calling("gone", "w3")
				return n
			}(),
			want: []string{
				`spec.jobs[j00].uses: Invalid value: "w2": calls are nested 9 deep (a -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8 -> w9), and may be 8`,
				`spec.jobs[j00].uses: Invalid value: "w2": Workflow "w2": spec.jobs[j00].uses: there is no Workflow "gone" in this namespace`,
			},
		},
		"one that cannot exist, which nobody is asked for": {
			namespace: func() *namespace {
				n := drawn("a: ../b")
				n.broken = "Workflow ../b"
				return n
			}(),
			want: []string{`spec.jobs[j00].uses: Not found: "../b": there is no Workflow "../b" in this namespace`},
		},
		"different things in the order of their places": {
			namespace: drawn("a: gone a gone"),
			want: []string{
				`spec.jobs[j00].uses: Not found: "gone": there is no Workflow "gone" in this namespace`,
				`spec.jobs[j01].uses: Invalid value: "a": workflow call cycle: a -> a`,
				`spec.jobs[j02].uses: Not found: "gone": there is no Workflow "gone" in this namespace`,
			},
		},
		"jobs in the order of their names": {
			namespace: func() *namespace {
				n := drawn("a:")
				for _, i := range []int{10, 9, 2, 1} {
					n.workflows["a"].Jobs[fmt.Sprint("j", i)] = workflowsv1alpha1.Job{Uses: fmt.Sprint("gone", i)}
				}
				return n
			}(),
			want: []string{
				`spec.jobs[j1].uses: Not found: "gone1": there is no Workflow "gone1" in this namespace`,
				`spec.jobs[j2].uses: Not found: "gone2": there is no Workflow "gone2" in this namespace`,
				`spec.jobs[j9].uses: Not found: "gone9": there is no Workflow "gone9" in this namespace`,
				`spec.jobs[j10].uses: Not found: "gone10": there is no Workflow "gone10" in this namespace`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs, err := Workflow(tc.namespace, "a", tc.namespace.workflows["a"])
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.want, errs)
			tc.namespace.checkReads(t)
			if tc.namespace.reads["Workflow a"] > 0 {
				t.Error("the Workflow that was handed over was read")
			}
		})
	}
}

// renamed calls the first Workflow of a chain a.
func renamed(n *namespace) *namespace {
	n.workflows["a"] = n.workflows["w1"]
	return n
}

func TestWorkflowLooksIntoWhatItCalls(t *testing.T) {
	cases := map[string]struct {
		workflows, actions string
		want               []string
	}{
		"inputs that fit": {
			workflows: `
a: {inputs: {i: {}}, jobs: {k: {uses: b, with: {image: '${{ inputs.i }}', flags: ''}}, v: {uses: b, with: {image: v}}}}
b: {inputs: {image: {required: true}, flags: {default: x}}, jobs: {k: {uses: c}}}
c: {inputs: {i: {}}, jobs: {k: {runs-on: sh, steps: [{name: s, uses: act, with: {i: v}}]}}}
`,
			actions: `act: {inputs: {i: {required: true}}, steps: [{name: s, run: 'echo ${{ inputs.i }}'}]}`,
		},
		"inputs that do not": {
			workflows: `
a: {jobs: {k: {uses: b, with: {imgae: v, other: v}}, v: {runs-on: sh, steps: [{name: s, uses: act, with: {j: v}}]}}}
b: {inputs: {image: {required: true}}, jobs: {k: {uses: c, with: {other: v}}, v: {runs-on: sh, steps: [{name: s, uses: act}]}}}
c: {jobs: {k: {runs-on: sh, steps: [{name: s, run: x}]}}}
`,
			actions: `act: {inputs: {i: {required: true}}, steps: [{name: s, run: x}]}`,
			want: []string{
				`spec.jobs[k].uses: Invalid value: "b": Workflow "b": spec.jobs[k].with[other]: "other" is not an input of Workflow "c": remove it, or declare it in the inputs there, and 1 more`,
				`spec.jobs[k].with: Required value: Workflow "b" requires the input "image": give it a value`,
				`spec.jobs[k].with[imgae]: Invalid value: "imgae": "imgae" is not an input of Workflow "b": did you mean "image"?`,
				`spec.jobs[k].with[other]: Invalid value: "other": "other" is not an input of Workflow "b": remove it, or declare it in the inputs there`,
				`spec.jobs[v].steps[0].with: Required value: Action "act" requires the input "i": give it a value`,
				`spec.jobs[v].steps[0].with[j]: Invalid value: "j": "j" is not an input of Action "act": remove it, or declare it in the inputs there`,
			},
		},
		"inputs of one that leads into a cycle": {
			workflows: `
a: {jobs: {k: {uses: b, with: {other: v}}}}
b: {jobs: {k: {uses: a}}}
`,
			want: []string{
				`spec.jobs[k].uses: Invalid value: "b": workflow call cycle: a -> b -> a`,
				`spec.jobs[k].with[other]: Invalid value: "other": "other" is not an input of Workflow "b": remove it, or declare it in the inputs there`,
			},
		},
		"definitions that are invalid, whose own calls are not followed": {
			workflows: `
a: {jobs: {k: {uses: b, with: {i: v}}, v: {uses: c}, z: {uses: d}}}
b: {jobs: {k: {uses: a, needs: [q, q]}, z: {runs-on: sh}}}
c: {jobs: {k: {uses: b}}}
d: {jobs: {k: {runs-on: sh, steps: [{name: s, uses: act}]}}}
`,
			actions: `act: {steps: [{name: s, uses: other}]}`,
			want: []string{
				`spec.jobs[k].uses: Invalid value: "b": Workflow "b" is invalid: spec.jobs[k].needs[0]: Invalid value: "q": "q" is not a job of this Workflow, and 2 more`,
				`spec.jobs[v].uses: Invalid value: "c": Workflow "c": spec.jobs[k].uses: Workflow "b" is invalid: spec.jobs[k].needs[0]: Invalid value: "q": "q" is not a job of this Workflow, and 2 more`,
				`spec.jobs[z].uses: Invalid value: "d": Workflow "d": spec.jobs[k].steps[0].uses: Action "act" is invalid: ` +
					`spec.steps[0].uses: Forbidden: the steps of an Action run scripts: an Action cannot call another Action`,
			},
		},
		"outputs that fit no WorkflowRun": {
			workflows: `
a: {jobs: {k: {uses: b}}}
b: {outputs: {` + manyOutputs(8, strings.Repeat("x", 32<<10)) + `}, jobs: {k: {uses: c}}}
`,
			want: []string{
				`spec.jobs[k].uses: Invalid value: "b": Workflow "b" is invalid: spec.outputs: Too long: the declared outputs have 262392 bytes, and may have 245760`,
			},
		},
		"a call and steps in one job: the call counts": {
			workflows: `a: {jobs: {k: {uses: gone, steps: [{name: s, uses: gone}]}}}`,
			want:      []string{`spec.jobs[k].uses: Not found: "gone": there is no Workflow "gone" in this namespace`},
		},
		"an error that quotes half of a definition is cut": {
			workflows: `
a: {jobs: {k: {uses: b}}}
b: {jobs: {` + strings.Repeat("ä", 1000) + `: {uses: c}}}
`,
			want: []string{
				`spec.jobs[k].uses: Invalid value: "b": Workflow "b" is invalid: spec.jobs[` + strings.Repeat("ä", 251) + `…`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := written(t, tc.workflows, tc.actions)
			errs, err := Workflow(n, "a", n.workflows["a"])
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.want, errs)
			n.checkReads(t)
		})
	}
}

func manyOutputs(n int, value string) string {
	var outputs []string
	for i := range n {
		outputs = append(outputs, fmt.Sprintf("o%d: {value: %s}", i, value))
	}
	return strings.Join(outputs, ", ")
}

func TestJobs(t *testing.T) {
	cases := map[string]struct {
		namespace *namespace
		jobs      map[string]workflowsv1alpha1.Job
		want      []string
	}{
		"a WorkflowRun does not count in the depth": {namespace: chain(8), jobs: calling("w1").Jobs},
		"nine Workflows are too deep": {
			namespace: chain(9), jobs: calling("w1").Jobs,
			want: []string{`spec.jobs[j00].uses: Invalid value: "w1": calls are nested 9 deep (w1 -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8 -> w9), and may be 8`},
		},
		"a cycle begins where the calls meet it": {
			namespace: drawn("a: b", "b: a"), jobs: calling("a", "b").Jobs,
			want: []string{
				`spec.jobs[j00].uses: Invalid value: "a": workflow call cycle: a -> b -> a`,
				`spec.jobs[j01].uses: Invalid value: "b": workflow call cycle: b -> a -> b`,
			},
		},
		"what is missing": {
			namespace: drawn("a: b"), jobs: calling("a", "c").Jobs,
			want: []string{
				`spec.jobs[j00].uses: Invalid value: "a": Workflow "a": spec.jobs[j00].uses: there is no Workflow "b" in this namespace`,
				`spec.jobs[j01].uses: Not found: "c": there is no Workflow "c" in this namespace`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs, err := Jobs(tc.namespace, tc.jobs)
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.want, errs)
			tc.namespace.checkReads(t)
		})
	}
}

// layers draws a diamond: every Workflow of a layer calls all of the next one. The one at the top is called a.
func layers(widths ...int) *namespace {
	n := &namespace{workflows: map[string]*workflowsv1alpha1.WorkflowSpec{}}
	names := []string{"a"}
	for layer, width := range append(widths, 0) {
		var below []string
		for i := range width {
			below = append(below, fmt.Sprintf("l%d-%d", layer, i))
		}
		for _, name := range names {
			n.workflows[name] = calling(below...)
		}
		names = below
	}
	return n
}

func TestExpansion(t *testing.T) {
	cases := map[string]struct {
		namespace *namespace
		want      []string
	}{
		"at the bound": {namespace: layers(32, 31)},
		"one over it":  {namespace: layers(1, 32, 31), want: []string{"spec.jobs: Too many: 1025: the calls expand to 1025 WorkflowRuns, and may expand to 1024"}},
		"far over it":  {namespace: layers(64, 64), want: []string{"spec.jobs: Too many: 4160: the calls expand to 4160 WorkflowRuns, and may expand to 1024"}},
		"far, far over it": {
			namespace: layers(64, 64, 64, 64, 64, 64, 64),
			want:      []string{"spec.jobs: Too many: 4467856773184: the calls expand to 4467856773184 WorkflowRuns, and may expand to 1024"},
		},
		"what is missing counts": {
			namespace: func() *namespace {
				n := layers(16, 64)
				delete(n.workflows, "l1-0")
				return n
			}(),
			want: append([]string{"spec.jobs: Too many: 1040: the calls expand to 1040 WorkflowRuns, and may expand to 1024"},
				each(16, `spec.jobs[j%02[1]d].uses: Invalid value: "l0-%[1]d": Workflow "l0-%[1]d": spec.jobs[j00].uses: there is no Workflow "l1-0" in this namespace`)...),
		},
		"what is too deep does not count": {
			namespace: layers(2, 2, 2, 2, 2, 2, 2, 64, 64, 64, 64, 64, 64),
			want: each(2, `spec.jobs[j%02[1]d].uses: Invalid value: "l0-%[1]d": calls are nested 9 deep `+
				`(a -> l0-%[1]d -> l1-0 -> l2-0 -> l3-0 -> l4-0 -> l5-0 -> l6-0 -> l7-0), and may be 8`),
		},
		"more Workflows than calls may expand to are not all read": {
			namespace: layers(64, 64, 1, 64, 64, 1, 64, 64, 1, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64),
			want:      []string{"spec.jobs: Too many: 1025: the calls expand to at least 1025 WorkflowRuns, and may expand to 1024"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs, err := Workflow(tc.namespace, "a", tc.namespace.workflows["a"])
			if err != nil {
				t.Fatal(err)
			}
			checkTexts(t, tc.want, errs)
			tc.namespace.checkReads(t)
			if len(tc.namespace.reads) > MaxExpanded {
				t.Errorf("%d Workflows were read", len(tc.namespace.reads))
			}
		})
	}
}

func each(n int, format string) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

func TestErrorsAreBounded(t *testing.T) {
	jobs := map[string]workflowsv1alpha1.Job{}
	for i := range 200 {
		jobs[fmt.Sprint("j", i)] = workflowsv1alpha1.Job{Uses: "gone"}
	}
	errs, err := Jobs(&namespace{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if len(errs) != 100 || errs[99].Field != "spec.jobs[j99].uses" {
		t.Errorf("got %d errors, the last one %v; want those of the first 100 jobs", len(errs), errs[len(errs)-1])
	}
}

func TestReadingErrors(t *testing.T) {
	cases := map[string]struct{ broken, want string }{
		"a Workflow that is called": {broken: "Workflow b", want: `reading Workflow "b": the connection was lost`},
		"one further down":          {broken: "Workflow c", want: `reading Workflow "c": the connection was lost`},
		"an Action that is called":  {broken: "Action one", want: `reading Action "one": the connection was lost`},
		"an Action further down":    {broken: "Action two", want: `reading Action "two": the connection was lost`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := written(t, `
a: {jobs: {x: {uses: gone}, y: {uses: b}, z: {runs-on: sh, steps: [{name: s, uses: one}]}}}
b: {jobs: {x: {uses: c}}}
c: {jobs: {x: {runs-on: sh, steps: [{name: s, uses: two}]}}}
`, `{one: {steps: [{name: s, run: x}]}, two: {steps: [{name: s, run: x}]}}`)
			n.broken = tc.broken
			workflow, workflowErr := Workflow(n, "a", n.workflows["a"])
			jobs, jobsErr := Jobs(n, n.workflows["a"].Jobs)
			for _, got := range []struct {
				list field.ErrorList
				err  error
			}{{workflow, workflowErr}, {jobs, jobsErr}} {
				if !errors.Is(got.err, errBroken) || got.list != nil {
					t.Fatalf("got %v, %v; want the error of reading alone", got.list, got.err)
				}
				if diff := cmp.Diff(tc.want, got.err.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// BenchmarkWorkflow checks the widest graph that can be written.
func BenchmarkWorkflow(b *testing.B) {
	for name, n := range map[string]*namespace{
		"diamond of 64 on 8 levels": layers(64, 64, 64, 64, 64, 64, 64),
		"cycles of 64 on 8 levels": func() *namespace {
			n := layers(64, 64, 64, 64, 64, 64, 64)
			for i := range 64 {
				n.workflows[fmt.Sprint("l6-", i)] = calling("a")
			}
			return n
		}(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if errs, err := Workflow(n, "a", n.workflows["a"]); err != nil || len(errs) == 0 {
					b.Fatal(errs, err)
				}
			}
		})
	}
}
