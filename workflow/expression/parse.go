package expression

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"kruntimes.io/kruntimes/workflow/suggest"
)

const (
	opening = "${{"
	closing = "}}"
	// blanks may stand between the words of an expression.
	blanks = " \t\r\n"
	// forms are what may stand in an expression.
	forms = "inputs.NAME, steps.NAME.outputs.NAME, jobs.NAME.outputs.NAME or 'text'"
	// noLanguage is said to those who expect more than that.
	noLanguage = "an expression is " + forms + ", without operators and functions"
)

// parser walks over one text.
type parser struct {
	text string
	// at is where locate was last. It only moves on, so that the text is counted once.
	at         Position
	parts      []part
	references []Reference
	errors     Errors
	// words is a buffer for the words of one expression.
	words []string
}

// MaxErrors bounds the errors that Parse reports of one text; a hostile one could hold hundreds of thousands.
const MaxErrors = 100

// Parse reads a text with expressions. It reports all that is wrong with the text, not only the first, up to MaxErrors
// where it stops reading; the Template then holds the references of the valid expressions, for further checks, and
// evaluates to the same errors.
func Parse(text string) (Template, Errors) {
	p := parser{text: text, at: Position{Line: 1, Column: 1}}
	done := 0
	for len(p.errors) < MaxErrors {
		start := strings.Index(text[done:], opening)
		if start < 0 {
			break
		}
		p.add(text[done : done+start])
		done = p.expression(done + start)
	}
	p.add(text[done:])
	return Template{text: text, parts: p.parts, references: p.references, errors: p.errors}, p.errors
}

func (p *parser) add(text string) {
	if text != "" {
		p.parts = append(p.parts, part{text: text, reference: textOnly})
	}
}

// expression reads the expression that starts at start, and returns where the text goes on.
//
// Parse is linear only because what is read twice is bounded. The end of a broken expression is looked for up to the
// next opening at most. A literal may run over openings and turn out broken; but those it ran over hold closed literals
// or none, for the first quote that is not doubled would have ended it.
func (p *parser) expression(start int) int {
	body := start + len(opening)
	if first := p.skipBlanks(body); first < len(p.text) && p.text[first] == '\'' {
		value, end, message := p.literal(first)
		if message == "" {
			p.add(value)
			return end
		}
		end, _ = p.end(body)
		p.fail(start, end, message)
		return end
	}
	end, closed := p.end(body)
	if !closed {
		p.fail(start, end, "the expression is not closed: end it with }}, or write ${{ '${{' }} for the characters ${{ themselves")
		return end
	}
	reference, message := p.reference(p.text[body : end-len(closing)])
	if message != "" {
		p.fail(start, end, message)
		return end
	}
	reference.Position = p.locate(start)
	p.parts = append(p.parts, part{reference: len(p.references), end: end})
	p.references = append(p.references, reference)
	return end
}

// end returns where the expression with the given body ends: behind its closing braces, or unclosed before the next
// opening or at the end of the text.
func (p *parser) end(body int) (end int, closed bool) {
	for i := body; i < len(p.text); i++ {
		switch rest := p.text[i:]; {
		case strings.HasPrefix(rest, closing):
			return i + len(closing), true
		case strings.HasPrefix(rest, opening):
			return i, false
		}
	}
	return len(p.text), false
}

// literal reads the literal that starts with the quote at start, and the braces behind it.
func (p *parser) literal(start int) (value string, end int, message string) {
	for end = start + 1; ; end++ {
		length := strings.IndexByte(p.text[end:], '\'')
		if length < 0 {
			return "", 0, "the literal is not closed: end it with ' and write a quote inside it as ''"
		}
		end += length + 1
		if end == len(p.text) || p.text[end] != '\'' {
			break
		}
	}
	behind := p.skipBlanks(end)
	if !strings.HasPrefix(p.text[behind:], closing) {
		return "", 0, "}} must follow the literal: write a quote inside it as ''"
	}
	return strings.ReplaceAll(p.text[start+1:end-1], "''", "'"), behind + len(closing), ""
}

func (p *parser) skipBlanks(from int) int {
	return len(p.text) - len(strings.TrimLeft(p.text[from:], blanks))
}

// fail records an error about the expression from start to end.
func (p *parser) fail(start, end int, message string) {
	p.errors = append(p.errors, Error{Position: p.locate(start), Expression: strings.TrimRight(p.text[start:end], blanks), Message: message})
}

// locate returns the position of an offset, which never lies before the last one.
func (p *parser) locate(offset int) Position {
	passed := p.text[p.at.Offset:offset]
	if newline := strings.LastIndexByte(passed, '\n'); newline >= 0 {
		p.at.Line += strings.Count(passed, "\n")
		p.at.Column = 1
		passed = passed[newline+1:]
	}
	p.at.Column += utf8.RuneCountInString(passed)
	p.at.Offset = offset
	return p.at
}

// reference reads what stands between the braces, or says what is wrong with it.
func (p *parser) reference(body string) (Reference, string) {
	words, message := split(body, p.words[:0])
	p.words = words
	if message != "" {
		return Reference{}, message
	}
	context := Context(words[0])
	switch context {
	case ContextInputs:
		switch {
		case len(words) == 1:
			return Reference{}, "the name of an input must follow: write inputs.NAME"
		case len(words) > 2:
			return Reference{}, fmt.Sprintf("nothing can follow inputs.%s, which is text", words[1])
		}
		return Reference{Context: context, Name: words[1]}, ""
	case ContextSteps, ContextJobs:
		if message := checkOutput(words); message != "" {
			return Reference{}, message
		}
		return Reference{Context: context, Owner: words[1], Name: words[3]}, ""
	}
	return Reference{}, unknownContext(words[0])
}

// checkOutput says what is wrong with the words of a reference to an output.
func checkOutput(words []string) string {
	form := words[0] + ".NAME.outputs.NAME"
	if len(words) > 1 {
		form = words[0] + "." + words[1] + ".outputs.NAME"
	}
	switch {
	case len(words) < 3:
		return "the reference is incomplete: write " + form
	case words[2] != "outputs":
		return fmt.Sprintf("%s.%s has no %q: write %s", words[0], words[1], words[2], form)
	case len(words) < 4:
		return "the reference is incomplete: write " + form
	case len(words) > 4:
		return fmt.Sprintf("nothing can follow %s, which is text", strings.Join(words[:4], "."))
	}
	return ""
}

// unknownContext says what to write in place of a context that does not exist.
func unknownContext(context string) string {
	known := []string{string(ContextInputs), string(ContextSteps), string(ContextJobs)}
	hint := suggest.DidYouMean(context, slices.Values(known))
	switch {
	case hint != "":
	case context == "needs":
		// As GitHub Actions calls it.
		hint = `: did you mean "jobs"?`
	case context == "env":
		hint = ": a script reads its environment itself"
	default:
		hint = ": write " + forms
	}
	return fmt.Sprintf("unknown context %q%s", context, hint)
}

// split appends the words of a body to words, or says what is wrong with it.
func split(body string, words []string) ([]string, string) {
	rest := strings.Trim(body, blanks)
	if rest == "" {
		return words, "the expression is empty: write " + forms
	}
	for {
		length := wordLength(rest)
		if length == 0 {
			return words, unexpected(rest)
		}
		words = append(words, rest[:length])
		rest = strings.TrimLeft(rest[length:], blanks)
		if rest == "" {
			return words, ""
		}
		if rest[0] != '.' {
			return words, unexpected(rest)
		}
		rest = strings.TrimLeft(rest[1:], blanks)
	}
}

// wordLength counts the letters, digits, '-' and '_' at the start of text.
func wordLength(text string) int {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return i
		}
	}
	return len(text)
}

// unexpected says why an expression cannot go on with rest.
func unexpected(rest string) string {
	if rest == "" {
		return "a name must follow the dot"
	}
	if length := wordLength(rest); length > 0 {
		return fmt.Sprintf("unexpected %q: %s", rest[:length], noLanguage)
	}
	_, size := utf8.DecodeRuneInString(rest)
	first := strconv.Quote(rest[:size])
	switch rest[0] {
	case '"':
		return `unexpected '"': text stands in single quotes, as in 'text'`
	case '\'':
		return "unexpected \"'\": a literal stands alone, as in ${{ 'text' }}"
	case '[':
		return `unexpected "[": a name follows a dot and not a bracket`
	case '.':
		return `unexpected ".": a name must stand before each dot`
	}
	return fmt.Sprintf("unexpected %s: %s", first, noLanguage)
}
