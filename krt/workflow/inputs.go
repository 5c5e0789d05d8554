package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/lint"
)

// parseFlags understands the values of --input.
func parseFlags(flags []string) (map[string]string, error) {
	inputs := make(map[string]string, len(flags))
	var errs []error
	for _, flag := range flags {
		name, value, isPair := strings.Cut(flag, "=")
		_, twice := inputs[name]
		switch {
		case !isPair:
			errs = append(errs, cli.WithHint(cli.Usagef("--input %s has no value", cli.OneLine(flag, 60)), "write --input %s=VALUE", cli.OneLine(flag, 60)))
		case name == "":
			errs = append(errs, cli.WithHint(cli.Usagef("--input %s has no name", cli.OneLine(flag, 60)), "write --input NAME%s", cli.OneLine(flag, 60)))
		case twice:
			errs = append(errs, cli.Usagef("--input %s is given twice", name))
		case !utf8.ValidString(flag):
			errs = append(errs, cli.Usagef("--input %s holds bytes that are no text in UTF-8", name))
		}
		inputs[name] = value
	}
	return inputs, errors.Join(errs...)
}

// readInputs reads a file of inputs: a mapping of names to texts, in YAML or JSON. The error lists all that is wrong.
func readInputs(ctx context.Context, in io.Reader, file string) (map[string]string, error) {
	content, err := lint.ReadFile(ctx, in, file)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, cli.Usagef("reading the inputs: %w", err)
	}
	r := inputReader{file: lint.FileName(file), content: content, inputs: map[string]string{}}
	if trimmed := bytes.TrimSpace(content); bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed) {
		r.readJSON()
	} else {
		r.readYAML()
	}
	if len(r.wrong) > 0 {
		lines := make([]string, len(r.wrong))
		for i, finding := range r.wrong {
			lines[i] = finding.String()
		}
		return nil, cli.Usagef("the inputs in %s are not valid:\n%s", r.file, strings.Join(lines, "\n"))
	}
	return r.inputs, nil
}

// inputReader gathers the inputs of one file, and what is wrong with them.
type inputReader struct {
	file    string
	content []byte
	inputs  map[string]string
	wrong   []lint.Finding
}

func (r *inputReader) addf(line, column int, format string, args ...any) {
	r.wrong = append(r.wrong, lint.Finding{File: r.file, Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
}

// readYAML takes the texts as they are written. What YAML reads as a number or a boolean would not come out so.
func (r *inputReader) readYAML() {
	decoder := yaml.NewDecoder(bytes.NewReader(r.content))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			r.wrong = append(r.wrong, lint.Syntax(r.file, r.content, err))
		}
		return
	}
	if decoder.Decode(&next) == nil && len(next.Content) > 0 {
		r.addf(next.Content[0].Line, next.Content[0].Column, "there is a second document: inputs are one mapping of names to texts")
	}
	root := document.Content[0]
	if root.ShortTag() == "!!null" {
		return
	}
	if root.Kind != yaml.MappingNode {
		r.addf(root.Line, root.Column, "inputs are a mapping of names to texts, and this is none")
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if why := lint.NotText(value); why != "" {
			r.addf(root.Content[i+1].Line, root.Content[i+1].Column, "%s: %s", key.Value, why)
		}
		r.set(key.Value, value.Value, key.Line, key.Column)
	}
}

// set keeps an input, unless there is one of the name already.
func (r *inputReader) set(name, value string, line, column int) {
	if _, twice := r.inputs[name]; twice {
		r.addf(line, column, "%q stands here for the second time", name)
	}
	r.inputs[name] = value
}

// readJSON takes the texts of an object. JSON may write characters in a way that YAML does not know.
func (r *inputReader) readJSON() {
	decoder := json.NewDecoder(bytes.NewReader(r.content))
	_, _ = decoder.Token() // the brace: the content is known to be valid
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return
		}
		line, column := r.place(decoder.InputOffset())
		name, _ := key.(string)
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return
		}
		valueLine, valueColumn := r.place(decoder.InputOffset() - int64(len(raw)))
		text, why := "", ""
		switch raw[0] {
		case '"':
			_ = json.Unmarshal(raw, &text)
		case '{', '[':
			why = "must be text, and is a list or a mapping"
		case 't', 'f':
			why = lint.QuoteIt("a boolean", string(raw))
		case 'n':
			why = lint.NoValue
		default:
			why = lint.QuoteIt("a number", string(raw))
		}
		if why != "" {
			r.addf(valueLine, valueColumn, "%s: %s", name, why)
		}
		r.set(name, text, line, column-utf8.RuneCountInString(name)-2)
	}
}

// place returns line and column of an offset, both from 1, the column in characters.
func (r *inputReader) place(offset int64) (line, column int) {
	before := r.content[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}
