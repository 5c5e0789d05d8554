package watch

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// Control sequences of terminals.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	// noWrap keeps a line whose characters are wider than expected from taking two.
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// View shows what becomes of one WorkflowRun: on a terminal as a tree that is drawn anew in its place, elsewhere as a
// line for each change.
type View struct {
	// Out takes the view.
	Out io.Writer
	// Talk takes what krt itself has to say. On a terminal it mingles with the view.
	Talk io.Writer
	// Terminal is the one behind Out.
	Terminal cli.Terminal
	// Now is the clock.
	Now func() time.Time

	mu      sync.Mutex
	family  workflowruns.Family
	changes workflowruns.Changes
	// paths is how wide the paths of changes are.
	paths int
	// drawn is how many lines of the tree are on the screen.
	drawn int
	// pictures counts them, for the spinner.
	pictures int
}

// Say tells a person something, without disturbing the tree.
func (v *View) Say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := "krt: " + cli.VisibleLines(fmt.Sprintf(format, args...)) + "\n"
	if !v.Terminal.Live {
		_, _ = io.WriteString(v.Talk, text) // there is nobody left to tell
		return
	}
	drawn := v.drawn
	_, _ = io.WriteString(v.Out, v.erase()+text)
	if drawn > 0 {
		_ = v.draw(false) // the next picture tells of the same error
	}
}

// show takes in a new sight of the WorkflowRun and its calls.
func (v *View) show(family workflowruns.Family) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.family = family
	if v.Terminal.Live {
		return v.draw(false)
	}
	for _, path := range (workflowruns.Steps{}).Paths(family) {
		v.paths = min(max(v.paths, pathWidth, utf8.RuneCountInString(path)), widestPath)
	}
	var b strings.Builder
	for _, change := range v.changes.Next(family, v.Now()) {
		b.WriteString(changeLine(family.Run, change, v.paths))
	}
	return v.write(b.String())
}

// tick moves the spinner and the times.
func (v *View) tick() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.Terminal.Live || v.family.Run == nil {
		return nil
	}
	v.pictures++
	return v.draw(false)
}

// end leaves the whole tree on the screen.
func (v *View) end() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.Terminal.Live || v.family.Run == nil {
		return nil
	}
	err := v.draw(true)
	v.drawn = 0
	return err
}

// draw replaces the picture on the screen. The last one may be higher than the screen, for it stays.
func (v *View) draw(last bool) error {
	width, height := v.Terminal.Size()
	picture := workflowruns.Picture{
		Style: workflowruns.Style{Colours: v.Terminal.Colours}, Spinner: workflowruns.Spinner(v.pictures),
		Width: width, Height: max(height-1, 2), Now: v.Now(),
	}
	if last {
		picture.Spinner, picture.Height = "", 0
	}
	lines := picture.Draw(v.family)
	var b strings.Builder
	b.WriteString(hideCursor + noWrap + v.up())
	for _, line := range lines {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearBelow + wrap)
	if last {
		b.WriteString(showCursor)
	}
	v.drawn = len(lines)
	return v.write(b.String())
}

// erase returns what takes the picture off the screen.
func (v *View) erase() string {
	text := v.up()
	if text != "" {
		text += clearBelow
	}
	v.drawn = 0
	return text
}

// up returns what moves to the first line of the picture. Of a picture that has become higher than the screen, what has
// left it cannot be reached.
func (v *View) up() string {
	_, height := v.Terminal.Size()
	n := v.drawn
	if height > 1 {
		n = min(n, height-1)
	}
	if n == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", n)
}

func (v *View) write(text string) error {
	if text == "" {
		return nil
	}
	if _, err := io.WriteString(v.Out, text); err != nil {
		return fmt.Errorf("writing the view: %w", err)
	}
	return nil
}

// Phases begin behind the longest path that is known, within these bounds.
const (
	pathWidth  = 24
	widestPath = 48
)

// changeLine writes one change, with the phase behind a path of some width.
func changeLine(run *workflowsv1alpha1.WorkflowRun, change workflowruns.Change, width int) string {
	path := change.Path
	if path == "" {
		path = run.Name
	}
	text := fmt.Sprintf("%s  %-*s  %-9s", change.Time.Format("15:04:05.000"), max(width, pathWidth), cli.Visible(path), cli.Visible(change.Phase))
	if change.Took != nil {
		text += "  " + runs.Duration(*change.Took)
	}
	if change.Message != "" {
		text += "  " + workflowruns.Flat(change.Message, 300)
	}
	return strings.TrimRight(text, " ") + "\n"
}
