package workflowruns

// Style colours words for a terminal. The zero value does not.
type Style struct {
	// Colours tells whether to use them.
	Colours bool
}

// The colours in use, as SGR parameters.
const (
	green  = "32"
	red    = "31"
	yellow = "33"
	cyan   = "36"
	faint  = "2"
	bold   = "1"
)

func (s Style) paint(colour, text string) string {
	if !s.Colours || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Phase colours a word by what the phase means.
func (s Style) Phase(phase, text string) string { return s.paint(stateOf(phase, false).colour(), text) }

func (s state) colour() string {
	switch s {
	case succeeded:
		return green
	case failed:
		return red
	case running:
		return cyan
	case started:
		return yellow
	case skipped, waiting:
		return faint
	}
	return ""
}

// mark is the sign before a name. What is active bears the spinner.
func (s state) mark(spinner string) string {
	switch s {
	case succeeded:
		return "✓"
	case failed:
		return "✗"
	case skipped:
		return "⊘"
	case running, started:
		return spinner
	}
	return "○"
}

// Spinner returns the sign of what is active at the n-th picture.
func Spinner(n int) string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	return string(frames[n%len(frames)])
}

// still is the sign of what is active in a picture that does not move.
const still = "●"

// Step colours a text by the step that it comes from. Steps that follow one another differ.
func (s Style) Step(n int, text string) string {
	colours := []string{"36", "33", "35", "34", "32", "96", "93", "95", "94", "92"}
	return s.paint(colours[n%len(colours)], text)
}
