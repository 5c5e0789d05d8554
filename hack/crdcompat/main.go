// Command crdcompat compares the CRDs with those of the last release, and fails where one of them could break what worked:
// stored objects, manifests, clients that read. What counts is in definition.go and schema.go.
//
// The release's CRDs lie in hack/crdcompat/released, without descriptions, because a clone need not have its tag. A break that
// is meant is a line of hack/crdcompat/accepted.txt, as it is printed, followed by " # " and the decision that says what to do
// about it; "…" in it stands for any text, where one decision is about many fields. --release makes the CRDs of now the
// reference, and starts with no accepted breaks.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	current  = "config/crd/bases"
	released = "hack/crdcompat/released"
	accepted = "hack/crdcompat/accepted.txt"
)

func main() {
	release := flag.Bool("release", false, "Make the CRDs of now the reference")
	flag.Parse()
	do := run
	if *release {
		do = writeReference
	}
	if err := do(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crdcompat:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	before, err := read(released)
	if err != nil {
		return err
	}
	now, err := read(current)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(accepted)
	if err != nil {
		return fmt.Errorf("reading the accepted breaks: %w", err)
	}
	breaks := compareAll(before, now)
	problems := judge(breaks, string(text), func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
	for _, p := range problems {
		fmt.Fprintln(out, p)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems; docs/development.md says how a break is accepted", len(problems))
	}
	fmt.Fprintf(out, "crdcompat: %d definitions go on from the last release; %d breaks are accepted\n", len(now), len(breaks))
	return nil
}

// judge returns what is wrong: breaks that nobody accepted, lines that accept what is none, and lines without a decision.
func judge(breaks []string, accepted string, exists func(path string) bool) (problems []string) {
	lines := map[string]*regexp.Regexp{}
	for line := range strings.Lines(accepted) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndex(line, " # ")
		if end < 0 {
			problems = append(problems, "accepted without a decision: "+line)
			continue
		}
		text, decision := strings.TrimSpace(line[:end]), strings.TrimSpace(line[end+len(" # "):])
		if !strings.HasPrefix(decision, "docs/decisions/") || !exists(decision) {
			problems = append(problems, fmt.Sprintf("accepted by %q, which is no decision: %s", decision, text))
		}
		lines[text] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*") + "$")
	}
	unused := maps.Clone(lines)
	for _, b := range breaks {
		meant := false
		for text, line := range lines {
			if line.MatchString(b) {
				meant = true
				delete(unused, text)
			}
		}
		if !meant {
			problems = append(problems, b)
		}
	}
	for _, text := range sortedKeys(unused) {
		problems = append(problems, "accepted, and no break: "+text)
	}
	return problems
}

// read returns the definitions below a directory.
func read(dir string) (all []*definition, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(filepath.Base(path), "kruntimes.io_") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		d := &definition{}
		if err := yaml.UnmarshalStrict(raw, d); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, d)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the definitions: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no definition below %s; run this from the root of the module", dir)
	}
	return all, nil
}

// writeReference replaces the reference by the definitions of now.
func writeReference(out io.Writer) error {
	now, err := read(current)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(released), os.MkdirAll(released, 0o755)); err != nil {
		return fmt.Errorf("clearing the reference: %w", err)
	}
	for _, d := range now {
		raw, err := yaml.Marshal(map[string]any{"apiVersion": d.APIVersion, "kind": d.Kind, "metadata": map[string]string{"name": d.Name}, "spec": d.Spec})
		if err != nil {
			return fmt.Errorf("encoding %s: %w", d.Name, err)
		}
		var plain any
		if err := yaml.Unmarshal(raw, &plain); err != nil {
			return fmt.Errorf("decoding %s: %w", d.Name, err)
		}
		if raw, err = yaml.Marshal(withoutDescriptions(plain, false)); err != nil {
			return fmt.Errorf("encoding %s: %w", d.Name, err)
		}
		file := filepath.Join(released, d.Spec.Group+"_"+d.Spec.Names.Plural+".yaml")
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			return fmt.Errorf("writing the reference: %w", err)
		}
	}
	const header = "# Breaks of the CRDs since the last release that are meant: LINE # docs/decisions/NNNN-title.md\n"
	if err := os.WriteFile(accepted, []byte(header), 0o644); err != nil {
		return fmt.Errorf("writing the accepted breaks: %w", err)
	}
	fmt.Fprintf(out, "crdcompat: %d definitions are the reference now\n", len(now))
	return nil
}

// withoutDescriptions drops the texts for people. A field may be called description as well.
func withoutDescriptions(value any, isProperties bool) any {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if _, isText := child.(string); key == "description" && isText && !isProperties {
				delete(v, key)
				continue
			}
			v[key] = withoutDescriptions(child, key == "properties" && !isProperties)
		}
	case []any:
		for i := range v {
			v[i] = withoutDescriptions(v[i], false)
		}
	}
	return value
}
