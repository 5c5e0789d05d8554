package calls

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// namespace holds definitions, and remembers what was read.
type namespace struct {
	workflows map[string]*workflowsv1alpha1.WorkflowSpec
	actions   map[string]*workflowsv1alpha1.ActionSpec
	// broken names what cannot be read.
	broken string
	reads  map[string]int
}

var errBroken = errors.New("the connection was lost")

func (n *namespace) Workflow(name string) (*workflowsv1alpha1.WorkflowSpec, error) {
	return n.workflows[name], n.read("Workflow " + name)
}

func (n *namespace) Action(name string) (*workflowsv1alpha1.ActionSpec, error) {
	return n.actions[name], n.read("Action " + name)
}

func (n *namespace) read(what string) error {
	if n.reads == nil {
		n.reads = map[string]int{}
	}
	n.reads[what]++
	if what == n.broken {
		return errBroken
	}
	return nil
}

// checkReads checks that nothing was read twice.
func (n *namespace) checkReads(t *testing.T) {
	t.Helper()
	for what, times := range n.reads {
		if times > 1 {
			t.Errorf("%s was read %d times", what, times)
		}
	}
}

// decode reads a spec as a person writes it.
func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	spec := new(T)
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), spec); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return spec
}

// written reads a namespace from specs by name.
func written(t *testing.T, workflows, actions string) *namespace {
	t.Helper()
	return &namespace{
		workflows: *decode[map[string]*workflowsv1alpha1.WorkflowSpec](t, workflows),
		actions:   *decode[map[string]*workflowsv1alpha1.ActionSpec](t, actions),
	}
}

// calling is a Workflow whose jobs j00, j01 … call the given ones.
func calling(callees ...string) *workflowsv1alpha1.WorkflowSpec {
	spec := &workflowsv1alpha1.WorkflowSpec{Jobs: map[string]workflowsv1alpha1.Job{}}
	for i, callee := range callees {
		spec.Jobs[fmt.Sprintf("j%02d", i)] = workflowsv1alpha1.Job{Uses: callee}
	}
	if len(callees) == 0 {
		spec.Jobs["j"] = workflowsv1alpha1.Job{RunsOn: "bash", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}
	}
	return spec
}

// drawn reads a namespace from lines such as "a: b c", by which a calls b and c.
func drawn(lines ...string) *namespace {
	n := &namespace{workflows: map[string]*workflowsv1alpha1.WorkflowSpec{}}
	for _, line := range lines {
		name, callees, _ := strings.Cut(line, ":")
		n.workflows[name] = calling(strings.Fields(callees)...)
	}
	return n
}

// chain draws Workflows w1 to wN, each of which calls the next one.
func chain(length int) *namespace {
	var lines []string
	for i := range length - 1 {
		lines = append(lines, fmt.Sprintf("w%d: w%d", i+1, i+2))
	}
	return drawn(append(lines, fmt.Sprintf("w%d:", length))...)
}

func checkTexts(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	if diff := cmp.Diff(want, texts(errs)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func texts(errs field.ErrorList) []string {
	var list []string
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return list
}
