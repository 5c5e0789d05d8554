package lint

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"kruntimes.io/kruntimes/workflow/expression"
)

// place is a part of a document: its key, where it has one, and its value.
type place struct {
	key, value *yaml.Node
}

// node is what a person looks at: the key of an entry, else the value.
func (p place) node() *yaml.Node {
	if p.key != nil {
		return p.key
	}
	return p.value
}

// find returns the part that a path such as spec.jobs[build].steps[0].run leads to, or the deepest one above it that is
// there. Paths are written in two ways: with names of entries behind a dot, and in brackets.
func (d *Document) find(path string) (place, bool) {
	found, rest := descend(place{value: d.root}, path)
	return found, rest == ""
}

// descend follows a path as far as it goes, and returns what is left of it.
func descend(p place, path string) (place, string) {
	value := p.value
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch value.Kind {
	case yaml.MappingNode:
		best, bestRest := p, path
		for i := 0; i+1 < len(value.Content); i += 2 {
			rest, ok := after(path, value.Content[i].Value)
			if !ok {
				continue
			}
			found, left := descend(place{key: value.Content[i], value: value.Content[i+1]}, rest)
			if len(left) < len(bestRest) {
				best, bestRest = found, left
			}
		}
		return best, bestRest
	case yaml.SequenceNode:
		number, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		index, err := strconv.Atoi(number)
		if !ok || err != nil || index < 0 || index >= len(value.Content) {
			return p, path
		}
		return descend(place{value: value.Content[index]}, rest)
	}
	return p, path
}

// after returns what follows the name of an entry at the start of a path.
func after(path, name string) (string, bool) {
	if rest, ok := strings.CutPrefix(path, "["+name+"]"); ok {
		return rest, true
	}
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "."), name)
	if !ok || (rest != "" && rest[0] != '.' && rest[0] != '[') {
		return "", false
	}
	return rest, true
}

// inside returns the line and column of a passage of a text, both from 1.
func (d *Document) inside(text *yaml.Node, p expression.Position, passage string) (line, column int) {
	if text.Kind == yaml.AliasNode {
		text = text.Alias
	}
	if text.Style&yaml.LiteralStyle != 0 {
		if line, column, ok := d.inBlock(text, p); ok {
			return line, column
		}
	}
	return d.search(text, p, passage)
}

// inBlock counts in a literal block, whose lines are those of the file without their indentation.
func (d *Document) inBlock(text *yaml.Node, p expression.Position) (line, column int, ok bool) {
	for i, content := range strings.Split(text.Value, "\n") {
		at := d.first + text.Line + i // the index of the line after the indicator
		if at >= len(d.lines) {
			return 0, 0, false
		}
		if strings.TrimSpace(content) == "" {
			continue
		}
		indent := len(d.lines[at]) - len(content)
		if indent < 0 || d.lines[at][indent:] != content {
			return 0, 0, false
		}
		return d.first + text.Line + p.Line, indent + p.Column, true
	}
	return 0, 0, false
}

// search looks for a passage in the lines of a text of any style. A passage that the style hides is placed at the start.
func (d *Document) search(text *yaml.Node, p expression.Position, passage string) (line, column int) {
	first, _, _ := strings.Cut(passage, "\n")
	skip := strings.Count(text.Value[:min(max(p.Offset, 0), len(text.Value))], first)
	start := d.first + text.Line
	for i := start - 1; i < len(d.lines) && first != ""; i++ {
		from := 0
		if i == start-1 {
			from = min(text.Column-1, len(d.lines[i]))
		}
		for {
			n := strings.Index(d.lines[i][from:], first)
			if n < 0 {
				break
			}
			if skip == 0 {
				return i + 1, len([]rune(d.lines[i][:from+n])) + 1
			}
			skip, from = skip-1, from+n+len(first)
		}
	}
	return start, text.Column
}
