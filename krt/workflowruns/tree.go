package workflowruns

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
)

// Picture says how a WorkflowRun is drawn.
type Picture struct {
	Style
	// Spinner is the sign of what is active. Default: one that does not move.
	Spinner string
	// Width is how many characters a line may have; 0 means any number.
	Width int
	// Height is how many lines there may be; 0 means any number. What has ended well is left out first.
	Height int
	// Details adds start times, Runs, outputs and whole messages.
	Details bool
	// Now is the time at which it is drawn.
	Now time.Time
}

// messageWidth bounds a message in a line.
const messageWidth = 160

// line is one line of a tree before it is aligned.
type line struct {
	// branch holds the lines that lead to the item.
	branch string
	state  state
	name   string
	phase  string
	// cells come after the phase.
	cells []string
	// note is the rest of the line, which nothing is aligned with.
	note string
	// text is a line that is not about an item of its own, such as an output. Then name and phase are empty.
	text string
}

// Draw returns the lines of the tree: the WorkflowRun, its jobs in the order of their needs, and what is inside them.
func (p Picture) Draw(family Family) []string {
	if p.Spinner == "" {
		p.Spinner = still
	}
	run, jobs := family.Run, family.Jobs()
	lines := p.layOut(run, jobs, func(*Item) bool { return true })
	if p.Height > 0 && len(lines) > p.Height {
		lines = p.layOut(run, jobs, func(job *Item) bool { return job.state().active() || job.state() == failed })
	}
	if p.Height > 0 && len(lines) > p.Height {
		lines = p.layOut(run, jobs, func(job *Item) bool { return job.state().active() })
	}
	drawn := p.align(lines)
	if p.Height > 1 && len(drawn) > p.Height {
		more := len(drawn) - p.Height + 1
		drawn = append(drawn[:p.Height-1:p.Height-1], p.cut(fmt.Sprintf("… %d more lines", more)))
	}
	return drawn
}

// layOut makes the lines. Jobs that open does not accept show without what is inside.
func (p Picture) layOut(run *workflowsv1alpha1.WorkflowRun, jobs []Item, open func(*Item) bool) []line {
	phase := string(Phase(run))
	done, all := Progress(run)
	head := line{state: stateOf(phase, phase == phasePending), name: run.Name, phase: phase, note: fmt.Sprintf("%d/%d jobs", done, all)}
	if Refused(run) {
		head.note, jobs = "not accepted", nil
	}
	if run.Spec.CancelRequested && !Phase(run).IsTerminal() {
		head.note += ", cancelling"
	}
	var took string
	if d, ok := Took(run, p.Now); ok {
		took = runs.Duration(d)
	}
	var start time.Time
	if run.Status.StartTime != nil {
		start = run.Status.StartTime.Time
	}
	head.cells = p.cells(took, start, "")
	lines := []line{head}
	for i := range jobs {
		lines = p.add(lines, &jobs[i], "", i == len(jobs)-1, open)
	}
	return lines
}

// add appends an item and what is inside.
func (p Picture) add(lines []line, item *Item, branch string, last bool, open func(*Item) bool) []line {
	joint, below := "├─ ", "│  "
	if last {
		joint, below = "└─ ", "   "
	}
	lines = append(lines, p.itemLine(item, branch+joint))
	isOpen := !item.isJob || open(item)
	if p.Details {
		inner := branch + below
		if isOpen && len(item.Items) > 0 {
			inner += "│  "
		} else {
			inner += "   "
		}
		if item.Message != "" && !item.hidesMessage() {
			lines = append(lines, line{branch: inner, state: item.state(), text: Flat(item.Message, messageWidth)})
		}
		for _, output := range outputLines("output ", item.Outputs) {
			lines = append(lines, line{branch: inner, text: output})
		}
	}
	if !isOpen {
		return lines
	}
	for i := range item.Items {
		lines = p.add(lines, &item.Items[i], branch+below, i == len(item.Items)-1, open)
	}
	return lines
}

// hidesMessage tells whether a message only repeats that of something inside.
func (i *Item) hidesMessage() bool {
	return slices.ContainsFunc(i.Items, func(inner Item) bool {
		return inner.Message != "" && strings.HasSuffix(i.Message, inner.Message)
	})
}

func (p Picture) itemLine(item *Item, branch string) line {
	l := line{branch: branch, state: item.state(), name: item.Name, phase: item.Phase}
	var took string
	if d, ok := item.Took(p.Now); ok {
		took = runs.Duration(d)
	}
	var start time.Time
	if item.Start != nil {
		start = item.Start.Time
	}
	l.cells = p.cells(took, start, item.Child)
	var notes []string
	if len(item.Needs) > 0 && (p.Details || l.state == waiting || l.state == skipped) {
		notes = append(notes, "needs "+strings.Join(item.Needs, ", "))
	}
	if item.Uses != "" {
		uses := "uses " + item.Uses
		if item.Child != "" && !p.Details {
			uses += " (" + item.Child + ")"
		}
		notes = append(notes, uses)
	}
	if !p.Details && item.Message != "" && l.state != succeeded && l.state != skipped && !item.hidesMessage() {
		notes = append(notes, Flat(item.Message, messageWidth))
	}
	l.note = strings.Join(notes, "; ")
	return l
}

// cells returns the columns between phase and note.
func (p Picture) cells(took string, start time.Time, child string) []string {
	if !p.Details {
		return []string{took}
	}
	started := ""
	if !start.IsZero() {
		started = start.In(p.Now.Location()).Format("15:04:05")
	}
	return []string{started, took, child}
}

// align makes columns of the lines and cuts what is too wide.
func (p Picture) align(lines []line) []string {
	var widths []int
	for i := range lines {
		lines[i].makeVisible()
	}
	for _, l := range lines {
		for i, cell := range l.columns() {
			if len(widths) <= i {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	drawn := make([]string, len(lines))
	for i, l := range lines {
		drawn[i] = p.draw(l, widths)
	}
	return drawn
}

// makeVisible keeps what a WorkflowRun says from doing anything to a terminal: nobody has checked the names in it before
// they are shown.
func (l *line) makeVisible() {
	for _, text := range []*string{&l.name, &l.phase, &l.note, &l.text} {
		*text = cli.Visible(*text)
	}
	for i := range l.cells {
		l.cells[i] = cli.Visible(l.cells[i])
	}
}

// columns are the cells that are aligned; the first holds branch, mark and name.
func (l line) columns() []string {
	if l.text != "" {
		return nil
	}
	return append([]string{l.branch + "? " + l.name, l.phase}, l.cells...)
}

// draw writes one line. Colours come last, so that they do not count as characters.
func (p Picture) draw(l line, widths []int) string {
	w := writer{picture: p, left: p.Width}
	w.add(faint, l.branch)
	if l.text != "" {
		colour := ""
		if l.state == failed {
			colour = red
		}
		w.add(colour, l.text)
		return w.String()
	}
	w.add(l.state.colour(), l.state.mark(p.Spinner))
	name := ""
	if l.branch == "" {
		name = bold
	}
	w.add(name, " "+l.name)
	gap := widths[0] - utf8.RuneCountInString(l.branch+"? "+l.name)
	for i, cell := range l.columns()[1:] {
		if cell != "" {
			w.add("", strings.Repeat(" ", gap+2))
			colour := faint
			if i == 0 {
				colour = l.state.colour()
			}
			w.add(colour, cell)
			gap = 0
		} else if widths[i+1] > 0 {
			gap += 2
		}
		gap += widths[i+1] - utf8.RuneCountInString(cell)
	}
	if l.note != "" {
		colour := ""
		if l.state < running || l.state == skipped {
			colour = faint
		}
		w.add("", strings.Repeat(" ", gap+2))
		w.add(colour, l.note)
	}
	return w.String()
}

// cut shortens a text to the width of the picture.
func (p Picture) cut(text string) string {
	w := writer{picture: p, left: p.Width}
	w.add("", text)
	return w.String()
}

// writer gathers a line until its width is used up.
type writer struct {
	strings.Builder
	picture Picture
	// left is how many characters may follow, where the picture has a width.
	left int
	full bool
}

func (w *writer) add(colour, text string) {
	w.full = w.full || (w.picture.Width > 0 && w.left <= 0)
	if w.full {
		return
	}
	if w.picture.Width > 0 {
		length := utf8.RuneCountInString(text)
		if length > w.left {
			text, w.full = string([]rune(text)[:max(w.left-1, 0)])+"…", true
		}
		w.left -= length
	}
	w.WriteString(w.picture.paint(colour, text))
}
