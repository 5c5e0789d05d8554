package calls

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/workflow/validate"
)

// Kinds of Workflows in a random graph.
const (
	fine = iota
	missing
	wrong
	kinds
)

// parsed makes a graph of up to 12 Workflows of bytes: for each one its kind, and then up to three calls, each of which
// may hand over an input that nobody has. The first Workflow is the one that is checked.
func parsed(data []byte) *namespace {
	n := &namespace{workflows: map[string]*workflowsv1alpha1.WorkflowSpec{}}
	count := min(12, (len(data)+3)/4)
	name := func(i int) string { return string(rune('a' + i)) }
	for i := range count {
		bytes := append(slices.Clone(data[4*i:min(len(data), 4*i+4)]), 255, 255, 255)
		var callees []string
		for _, b := range bytes[1:4] {
			if int(b>>1) < count {
				callees = append(callees, name(int(b>>1)))
			}
		}
		spec := calling(callees...)
		for k := range callees {
			job := spec.Jobs[fmt.Sprintf("j%02d", k)]
			if bytes[k+1]&1 == 1 {
				job.With = map[string]workflowsv1alpha1.InputValue{"odd": "x"}
			}
			spec.Jobs[fmt.Sprintf("j%02d", k)] = job
		}
		switch kind := bytes[0] % 16; {
		case i == 0 || kind >= kinds || kind == fine:
			n.workflows[name(i)] = spec
		case kind == wrong:
			spec.Jobs["wrong"] = workflowsv1alpha1.Job{RunsOn: "bash"}
			n.workflows[name(i)] = spec
		}
	}
	return n
}

// oracle walks all paths through a graph, and remembers nothing.
type oracle struct{ *namespace }

// kind says what becomes of a call.
func (o oracle) kind(name string) int {
	spec, exists := o.workflows[name]
	if !exists {
		return missing
	}
	if _, isWrong := spec.Jobs["wrong"]; isWrong {
		return wrong
	}
	return fine
}

// calls returns the calls of a Workflow that can be followed, by number.
func (o oracle) calls(name string) []workflowsv1alpha1.Job {
	var jobs []workflowsv1alpha1.Job
	for i := 0; o.kind(name) == fine; i++ {
		job, exists := o.workflows[name].Jobs[fmt.Sprintf("j%02d", i)]
		if !exists {
			break
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// cycle returns the first cycle behind a path.
func (o oracle) cycle(path []string) string {
	last := path[len(path)-1]
	if at := slices.Index(path, last); at < len(path)-1 {
		return strings.Join(path[at:], " -> ")
	}
	for _, job := range o.calls(last) {
		if found := o.cycle(append(slices.Clone(path), job.Uses)); found != "" {
			return found
		}
	}
	return ""
}

// deep returns the first way on of a path that has nine Workflows.
func (o oracle) deep(path []string) []string {
	if len(path) == 9 {
		return path
	}
	for _, job := range o.calls(path[len(path)-1]) {
		if found := o.deep(append(slices.Clone(path), job.Uses)); found != nil {
			return found
		}
	}
	return nil
}

// expanded counts the WorkflowRuns of a call.
func (o oracle) expanded(name string) int {
	sum := 1
	for _, job := range o.calls(name) {
		sum += o.expanded(job.Uses)
	}
	return sum
}

// problems returns what is wrong with the calls of a Workflow, each as its place, type and message.
func (o oracle) problems(name string) []string {
	var list []string
	for i, job := range o.calls(name) {
		uses := fmt.Sprintf("spec.jobs[j%02d].uses: ", i)
		switch {
		case o.kind(job.Uses) == missing:
			list = append(list, fmt.Sprintf("%sthere is no Workflow %q in this namespace", uses, job.Uses))
			continue
		case o.kind(job.Uses) == wrong:
			list = append(list, fmt.Sprintf("%sWorkflow %q is invalid: spec.jobs[wrong]: Required value: a job has either steps or uses, the name of a Workflow", uses, job.Uses))
			continue
		}
		if below := o.problemsBelow(name, job.Uses); len(below) > 0 {
			text := below[0]
			if len(below) > 1 {
				text += fmt.Sprintf(", and %d more", len(below)-1)
			}
			list = append(list, fmt.Sprintf("%sWorkflow %q: %s", uses, job.Uses, text))
		}
		if len(job.With) > 0 && job.Uses != "a" {
			list = append(list, fmt.Sprintf(`spec.jobs[j%02d].with[odd]: "odd" is not an input of Workflow %q: remove it, or declare it in the inputs there`, i, job.Uses))
		}
	}
	return list
}

// problemsBelow returns those of a callee, save for one that leads into a cycle.
func (o oracle) problemsBelow(caller, callee string) []string {
	if path := []string{"a", callee}; caller == "a" && o.cycle(path) != "" {
		return nil
	}
	return o.problems(callee)
}

// errors returns all that is wrong with the calls of Workflow a.
func (o oracle) errors() []string {
	list := o.problems("a")
	sum := 0
	for i, job := range o.calls("a") {
		path := []string{"a", job.Uses}
		uses := fmt.Sprintf("spec.jobs[j%02d].uses: ", i)
		if cycle := o.cycle(path); cycle != "" {
			list = append(list, uses+"workflow call cycle: "+cycle)
		} else if deep := o.deep(path); deep != nil {
			list = append(list, uses+"calls are nested 9 deep ("+strings.Join(deep, " -> ")+"), and may be 8")
		} else {
			sum += o.expanded(job.Uses)
		}
	}
	if sum > 1024 {
		list = append(list, fmt.Sprintf("spec.jobs: the calls expand to %d WorkflowRuns, and may expand to 1024", sum))
	}
	slices.Sort(list)
	return list
}

// checkGraph compares what is said of a graph with what the oracle says.
func checkGraph(t *testing.T, n *namespace) []string {
	t.Helper()
	errs, err := Workflow(n, "a", n.workflows["a"])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Field+": "+e.Detail)
	}
	again, err := Workflow(&namespace{workflows: n.workflows}, "a", n.workflows["a"])
	if diff := cmp.Diff(texts(errs), texts(again)); diff != "" || err != nil {
		t.Errorf("errors of the second time: %v (-first +second):\n%s", err, diff)
	}
	n.checkReads(t)
	inOrder := slices.Clone(errs)
	validate.Sort(inOrder)
	if diff := cmp.Diff(texts(inOrder), texts(errs)); diff != "" {
		t.Errorf("errors are not in their order (-want +got):\n%s", diff)
	}
	slices.Sort(got)
	if diff := cmp.Diff(oracle{n}.errors(), got); diff != "" {
		t.Errorf("errors (-want +got):\n%s\nof %s", diff, draw(n))
	}
	return got
}

// draw gives a graph as text.
func draw(n *namespace) string {
	var lines []string
	for i := range 12 {
		name := string(rune('a' + i))
		line := name + ":"
		for _, job := range (oracle{n}).calls(name) {
			line += " " + job.Uses
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func FuzzCalls(f *testing.F) {
	for _, lines := range [][]int{{0}, {1, 0}, {1, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 0}} {
		var data []byte
		for _, callee := range lines {
			data = append(data, fine, byte(callee<<1), byte(callee<<1|1), 255)
		}
		f.Add(append(data, missing, 255, 255, 255))
		f.Add(append(data, wrong, 255, 255, 255))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		checkGraph(t, parsed(data))
	})
}

// TestRandomGraphs draws graphs that mostly lead on, so that they are deep and wide.
func TestRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[string]int{}
	for range 400 {
		count, ahead := 2+random.IntN(11), 2
		if random.IntN(4) == 0 {
			// As many paths as eight levels can have.
			count, ahead = 8, 1
		}
		var data []byte
		for i := range count {
			data = append(data, byte(random.IntN(60)%16))
			for range 3 {
				callee := i + 1 + random.IntN(ahead)
				if random.IntN(12*(3-ahead)) == 0 {
					callee = random.IntN(count)
				}
				data = append(data, byte(callee<<1|min(1, random.IntN(30)/29)))
			}
		}
		for _, text := range checkGraph(t, parsed(data)) {
			for _, kind := range []string{"cycle", "nested", "expand", "there is no", "is invalid", "is not an input", "more"} {
				if strings.Contains(text, kind) {
					seen[kind]++
				}
			}
		}
	}
	for _, kind := range []string{"cycle", "nested", "expand", "there is no", "is invalid", "is not an input", "more"} {
		if seen[kind] < 5 {
			t.Errorf("only %d errors of the graphs say %q, of %v", seen[kind], kind, seen)
		}
	}
}
