// Package examples holds the manifests that people copy against a real API server: those below examples and
// config/samples, and those printed in the documents.
package examples

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifest is one object and where it stands.
type manifest struct {
	source string
	object *unstructured.Unstructured
}

// collect returns the objects of every YAML file and of every YAML block in a document below the paths under root.
func collect(root string, paths ...string) ([]manifest, error) {
	var found []manifest
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(root, path), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "kustomization.yaml" {
				return err
			}
			text, err := yamlOf(file)
			if err != nil {
				return err
			}
			objects, err := decode(text)
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			for _, o := range objects {
				found = append(found, manifest{source: strings.TrimPrefix(file, root+"/"), object: o})
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
		var blocks bytes.Buffer
		for _, part := range strings.Split(string(text), "\n```yaml\n")[1:] {
			block, _, _ := strings.Cut(part, "\n```")
			blocks.WriteString(block + "\n---\n")
		}
		return blocks.Bytes(), nil
	}
	return nil, nil
}

// decode returns the objects of a stream of YAML documents.
func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}
