package lint

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/krt/cli"
)

// Finding is one thing that is wrong in a file.
type Finding struct {
	// File as it was named.
	File string `json:"file"`
	// Line and Column are the place in it. Both count from 1, Column in characters.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Warning tells that it works, though it should be done differently, or that it could not be checked.
	Warning bool `json:"warning"`
	// Message says what is wrong and, where it is known, what to write instead.
	Message string `json:"message"`
	// path is that of the field, as checks write it, or empty.
	path string
}

// String gives the finding in one line, as compilers write it. Whatever a file holds, it does nothing to a terminal.
func (f Finding) String() string {
	kind := ""
	if f.Warning {
		kind = "warning: "
	}
	return cli.Visible(fmt.Sprintf("%s:%d:%d: %s%s", f.File, f.Line, f.Column, kind, f.Message))
}

// Document is one object of a file, and where its parts are.
type Document struct {
	// Object is what the document says.
	Object *unstructured.Unstructured

	file string
	// lines are those of the file; first is the index of the document's first one.
	lines []string
	first int
	root  *yaml.Node
}

// maxDocuments bounds the documents of one file.
const maxDocuments = 10_000

// split takes a file apart into its documents, and lists into their items. Empty ones are left out, and so are those of which a
// finding says that they cannot be understood at all. It returns early when ctx ends.
func split(ctx context.Context, file string, content []byte) ([]Document, []Finding) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	lines := strings.Split(string(content), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	var documents []Document
	var findings []Finding
	start := 0
	for i := 0; i <= len(lines) && ctx.Err() == nil; i++ {
		if i < len(lines) && !isMarker(lines[i]) {
			continue
		}
		d := Document{file: file, lines: lines, first: start}
		if len(documents)+len(findings) >= maxDocuments {
			return nil, []Finding{{File: file, Line: start + 1, Column: 1,
				Message: fmt.Sprintf("the file has more than %d documents: split it into several", maxDocuments)}}
		}
		found := d.parse(lines[start:i])
		findings = append(findings, found...)
		if d.Object != nil {
			inside, wrong := d.items()
			documents, findings = append(documents, inside...), append(findings, wrong...)
		}
		start = i + 1
		if i < len(lines) && strings.TrimSpace(strings.TrimPrefix(lines[i], "---")) != "" && !strings.HasPrefix(strings.TrimSpace(lines[i][3:]), "#") {
			start = i // the document begins on the line of its marker
			i++
		}
	}
	return documents, findings
}

// isMarker tells whether a line begins a new document.
func isMarker(line string) bool {
	return line == "---" || strings.HasPrefix(line, "--- ")
}

// parse understands the lines of one document. It leaves the object nil where there is none.
func (d *Document) parse(lines []string) []Finding {
	text := []byte(strings.Join(lines, "\n") + "\n")
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return []Finding{d.syntax(err)}
	}
	if node.Kind == 0 || len(node.Content) == 0 || isNull(node.Content[0]) {
		return nil
	}
	d.root = node.Content[0]
	if d.root.Kind != yaml.MappingNode {
		return []Finding{d.at(d.root, "a manifest is a mapping with apiVersion, kind and more, and this is none")}
	}
	raw, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		return []Finding{d.syntax(err)}
	}
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return []Finding{d.at(d.root, err.Error())}
	}
	d.Object = &unstructured.Unstructured{Object: object}
	return d.duplicates(d.root, nil)
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value != "~"
}

var lineInError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?`)

// Syntax places an error of a YAML parser in the file that it read.
func Syntax(file string, content []byte, err error) Finding {
	d := Document{file: file, lines: strings.Split(string(content), "\n")}
	return d.syntax(err)
}

// lineOf returns the line that an error of a YAML parser names, from 1.
func lineOf(err error) int {
	if m := lineInError.FindStringSubmatch(err.Error()); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			return n
		}
	}
	return 1
}

// syntax places an error of a YAML parser.
func (d *Document) syntax(err error) Finding {
	text := lineInError.ReplaceAllString(err.Error(), "")
	line := min(max(d.first+lineOf(err), 1), len(d.lines))
	column := 1 + len(d.lines[line-1]) - len(strings.TrimLeft(d.lines[line-1], " "))
	return Finding{File: d.file, Line: line, Column: column, Message: "not valid YAML: " + strings.TrimSpace(text)}
}

// at places a message at a node.
func (d *Document) at(n *yaml.Node, message string) Finding {
	return Finding{File: d.file, Line: d.first + n.Line, Column: n.Column, Message: message}
}

// duplicates finds keys that stand twice in a mapping. All but the last are lost.
func (d *Document) duplicates(n *yaml.Node, findings []Finding) []Finding {
	if n.Kind == yaml.MappingNode {
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if line, twice := lines[key.Value]; twice && key.Value != "<<" {
				findings = append(findings, d.at(key, fmt.Sprintf("%q stands here for the second time: the first is in line %d", key.Value, d.first+line)))
			}
			lines[key.Value] = key.Line
		}
	}
	for _, child := range n.Content {
		findings = d.duplicates(child, findings)
	}
	return findings
}

// Place names the line on which the document begins.
func (d Document) Place() string {
	return fmt.Sprintf("%s:%d:%d", d.file, d.first+d.root.Line, d.root.Column)
}
