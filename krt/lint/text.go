package lint

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsyaml "sigs.k8s.io/yaml"
)

// isNotText tells whether an error of a schema is that something else stands where a text is due.
func isNotText(e *field.Error) bool {
	want, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, e.Field+" in body "), ": ")
	return want == "must be of type string"
}

// NotText says why a node is no text for everybody who reads YAML, or is empty.
func NotText(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return "must be text, and is a list or a mapping"
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 || n.Style&yaml.TaggedStyle != 0 && n.ShortTag() == "!!str" {
		return ""
	}
	var value any
	if err := sigsyaml.Unmarshal([]byte(n.Value), &value); err != nil {
		return "" // whatever it is, it is neither number nor boolean
	}
	switch value.(type) {
	case bool:
		return QuoteIt("a boolean", n.Value)
	case int64, float64:
		return QuoteIt("a number", n.Value)
	case nil:
		return NoValue
	}
	return ""
}

// NoValue says what to write where there is nothing.
const NoValue = `has no value: write "" for the empty text`

// QuoteIt says what to write for a value that was written without quotes.
func QuoteIt(kind, written string) string {
	return fmt.Sprintf("must be text, and %s is %s: quote it, as in %q", written, kind, written)
}

// changedKeys finds keys that do not come out as they are written: on, for one, comes out as true.
func (d *Document) changedKeys(n *yaml.Node) []Finding {
	var findings []Finding
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if name := readAs(child); name != child.Value {
				findings = append(findings, d.at(child, fmt.Sprintf("the name %s is read as %s: quote it, as in %q", child.Value, name, child.Value)))
			}
		}
		findings = append(findings, d.changedKeys(child)...)
	}
	return findings
}

// readAs returns what a key becomes.
func readAs(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode || key.Value == "<<" || NotText(key) == "" {
		return key.Value
	}
	var read map[string]any
	if err := sigsyaml.Unmarshal([]byte(key.Value+": 0\n"), &read); err != nil {
		return key.Value
	}
	for name := range read {
		return name
	}
	return key.Value
}
