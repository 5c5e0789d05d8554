// Package examples holds the manifests that people copy against a real API server: those below examples and
// config/samples, and those printed in the documents. test/system/examples executes some of them.
package examples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// failing is the comment of a manifest that fails when it is executed: what its message holds follows.
var failing = regexp.MustCompile(`(?m)^# Fails: (.+)$`)

// Manifest is one object and where it stands.
type Manifest struct {
	// Source is the file, relative to the root.
	Source string
	// Object as it is written there.
	Object *unstructured.Unstructured
	// Fails is what the message of the object holds when it has failed, as it is meant to. Empty: it is meant to succeed.
	Fails string
}

// Collect returns the objects of every YAML file and of every YAML block in a document below the paths under root.
func Collect(root string, paths ...string) ([]Manifest, error) {
	var found []Manifest
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(root, path), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "kustomization.yaml" {
				return err
			}
			text, err := yamlOf(file)
			if err != nil {
				return err
			}
			manifests, err := decode(text)
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			for _, m := range manifests {
				m.Source = strings.TrimPrefix(file, root+"/")
				found = append(found, m)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// yamlOf returns the YAML documents of a file; a Markdown file holds them in blocks fenced as yaml.
func yamlOf(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(file) {
	case ".yaml":
		return text, nil
	case ".md":
		return []byte(strings.Join(Blocks(string(text), "yaml"), "\n---\n")), nil
	}
	return nil, nil
}

// Blocks returns what stands in the blocks of a Markdown text that are fenced as language.
func Blocks(text, language string) []string {
	var found []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		found = append(found, block)
	}
	return found
}

// decode returns the objects of a stream of YAML documents.
func decode(text []byte) ([]Manifest, error) {
	var manifests []Manifest
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return manifests, nil
		}
		if err != nil {
			return nil, err
		}
		m := Manifest{Object: &unstructured.Unstructured{}}
		if err := yaml.Unmarshal(document, &m.Object.Object); err != nil {
			return nil, err
		}
		if match := failing.FindSubmatch(document); match != nil {
			m.Fails = string(match[1])
		}
		if len(m.Object.Object) > 0 {
			manifests = append(manifests, m)
		}
	}
}
