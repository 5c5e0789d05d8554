package main

import (
	"regexp"
	"strings"
	"unicode"
)

// link is a relative link and the line it stands on.
type link struct {
	target string
	line   int
}

var (
	inline     = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	definition = regexp.MustCompile(`^\[[^\]]+\]:\s+(\S+)`)
	absolute   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	code       = regexp.MustCompile("`[^`]*`")
)

// links returns the relative links of a Markdown text. Code blocks and code spans hold none.
func links(text string) []link {
	var found []link
	eachLine(text, func(number int, line string) {
		line = code.ReplaceAllString(line, "")
		matches := append(inline.FindAllStringSubmatch(line, -1), definition.FindAllStringSubmatch(line, -1)...)
		for _, m := range matches {
			if !absolute.MatchString(m[1]) {
				found = append(found, link{target: m[1], line: number})
			}
		}
	})
	return found
}

// anchors returns the names by which the headings of a Markdown text can be linked to.
func anchors(text string) []string {
	var names []string
	eachLine(text, func(_ int, line string) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			return
		}
		names = append(names, anchor(title))
	})
	return names
}

// anchor lowers the title, turns spaces into dashes and drops what is neither letter, digit, dash nor underscore.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}

// eachLine calls f for every line outside fenced code blocks. Lines count from 1.
func eachLine(text string, f func(number int, line string)) {
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			f(i+1, line)
		}
	}
}
