package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// graph is what is drawn of one Workflow or WorkflowRun.
type graph struct {
	kind cli.Kind
	name string
	// phase is that of a WorkflowRun, and empty of a Workflow.
	phase string
	// nodes come in an order in which each stands behind those that it needs.
	nodes []node
}

// node is a job.
type node struct {
	name  string
	needs []string
	// what the job does: the Runtime and how many steps, or the Workflow that it calls.
	what string
	// calls tells that it is a call, and child names its WorkflowRun, once there is one.
	calls bool
	child string
	// phase is that of a job of a WorkflowRun, and empty of a Workflow.
	phase string
	// stage is how many jobs have to end one after another before it starts.
	stage int
}

func ofWorkflow(workflow *workflowsv1alpha1.Workflow) graph {
	return graph{kind: cli.KindWorkflow, name: workflow.Name, nodes: nodes(workflow.Spec.Jobs)}
}

func ofWorkflowRun(run *workflowsv1alpha1.WorkflowRun) graph {
	g := graph{kind: cli.KindWorkflowRun, name: cmp.Or(run.Name, run.GenerateName), nodes: nodes(run.Spec.Jobs)}
	if run.UID == "" { // one in a file, of which nothing has become yet
		return g
	}
	g.phase = string(workflowruns.Phase(run))
	for _, job := range workflowruns.Alone(run).Jobs() {
		for i := range g.nodes {
			if g.nodes[i].name == job.Name {
				g.nodes[i].phase, g.nodes[i].child = job.Phase, job.Child
			}
		}
	}
	return g
}

func nodes(jobs map[string]workflowsv1alpha1.Job) []node {
	var all []node
	stages := map[string]int{}
	for _, name := range workflowruns.Order(jobs) {
		job := jobs[name]
		n := node{name: name, needs: slices.Compact(slices.Sorted(slices.Values(job.Needs))), calls: job.Uses != ""}
		for _, need := range n.needs {
			if before, known := stages[need]; known {
				n.stage = max(n.stage, before+1)
			}
		}
		stages[name] = n.stage
		switch {
		case n.calls:
			n.what = "calls " + job.Uses
		case len(job.Steps) == 1:
			n.what = "1 step on " + job.RunsOn
		default:
			n.what = fmt.Sprintf("%d steps on %s", len(job.Steps), job.RunsOn)
		}
		all = append(all, n)
	}
	return all
}

// text draws the graph for a person: stages from top to bottom, each job with what it needs.
func (g graph) text(style workflowruns.Style) string {
	stages := map[int][]node{}
	last, width, phaseWidth, whatWidth := 0, 0, 0, 0
	for _, n := range g.nodes {
		stages[n.stage] = append(stages[n.stage], n)
		last = max(last, n.stage)
		width, phaseWidth, whatWidth = max(width, length(n.name)), max(phaseWidth, length(n.phase)), max(whatWidth, length(n.what))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s in %s%s\n", g.kind, cli.Visible(g.name), count(len(g.nodes), "job"), count(last+1, "stage"), cli.Visible(prefixed(", ", g.phase)))
	for stage := range last + 1 {
		jobs := stages[stage]
		if stage > 0 {
			b.WriteString("     ↓\n")
		}
		for i, n := range jobs {
			label := "    "
			if i == 0 {
				label = fmt.Sprintf("%3d ", stage+1)
			}
			line := label + bracket(i, len(jobs)) + " " + pad(n.name, width)
			if phaseWidth > 0 {
				line += "  " + style.Phase(n.phase, pad(n.phase, phaseWidth))
			}
			line += "  " + pad(n.what, whatWidth)
			var notes []string
			if len(n.needs) > 0 {
				notes = append(notes, "needs "+strings.Join(n.needs, ", "))
			}
			if n.child != "" {
				notes = append(notes, "WorkflowRun "+n.child)
			}
			if len(notes) > 0 {
				line += "  " + cli.Visible(strings.Join(notes, "; "))
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// bracket holds the jobs of a stage together.
func bracket(i, of int) string {
	switch {
	case of == 1:
		return "─"
	case i == 0:
		return "┌"
	case i == of-1:
		return "└"
	}
	return "│"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func length(s string) int { return len([]rune(cli.Visible(s))) }

// pad makes a text visible, and fills it up to a width.
func pad(s string, width int) string {
	s = cli.Visible(s)
	return s + strings.Repeat(" ", max(width-len([]rune(s)), 0))
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// lines are what stands in the box of a job.
func (n node) lines() []string {
	lines := []string{n.name, n.what}
	if n.phase != "" {
		lines = append(lines, n.phase)
	}
	return lines
}

// colours of phases, as both languages write them.
var colours = map[string]string{
	"Running": "#cfe8ff", "Succeeded": "#d3f2d3", "Failed": "#ffd3d3", "Skipped": "#e8e8e8", "Waiting": "#ffffff", "Pending": "#fff4c9",
}

// mermaid writes the graph in the language of Mermaid. A call has a box with a second frame.
func (g graph) mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	ids := g.ids()
	for _, n := range g.nodes {
		open, end := "[", "]"
		if n.calls {
			open, end = "[[", "]]"
		}
		quoted := make([]string, 0, 3)
		for _, line := range n.lines() {
			quoted = append(quoted, mermaidText(line))
		}
		fmt.Fprintf(&b, "    %s%s\"%s\"%s\n", ids[n.name], open, strings.Join(quoted, "<br/>"), end)
	}
	for _, n := range g.nodes {
		for _, need := range n.needs {
			if id, known := ids[need]; known {
				fmt.Fprintf(&b, "    %s --> %s\n", id, ids[n.name])
			}
		}
	}
	for _, n := range g.nodes {
		if colour := colours[n.phase]; colour != "" {
			fmt.Fprintf(&b, "    style %s fill:%s\n", ids[n.name], colour)
		}
	}
	return b.String()
}

// ids are what the languages call the jobs, whose names could be words of the language.
func (g graph) ids() map[string]string {
	ids := make(map[string]string, len(g.nodes))
	for i, n := range g.nodes {
		ids[n.name] = fmt.Sprintf("job%d", i+1)
	}
	return ids
}

// mermaidText writes characters that mean something in a quoted text by their numbers.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range cli.Visible(s) {
		if strings.ContainsRune("\"#&;<>`\\", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// dot writes the graph in the language of Graphviz.
func (g graph) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n    rankdir=LR;\n    node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", fontname=\"sans-serif\"];\n", dotText(g.name))
	ids := g.ids()
	for _, n := range g.nodes {
		attributes := "label=" + dotText(n.lines()...)
		if n.calls {
			attributes += ", peripheries=2"
		}
		if colour := colours[n.phase]; colour != "" {
			attributes += ", fillcolor=" + dotText(colour)
		}
		fmt.Fprintf(&b, "    %s [%s];\n", ids[n.name], attributes)
	}
	for _, n := range g.nodes {
		for _, need := range n.needs {
			if id, known := ids[need]; known {
				fmt.Fprintf(&b, "    %s -> %s;\n", id, ids[n.name])
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText writes lines as a quoted text.
func dotText(lines ...string) string {
	quoted := make([]string, len(lines))
	for i, line := range lines {
		quoted[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;").Replace(cli.Visible(line))
	}
	return `"` + strings.Join(quoted, `\n`) + `"`
}
