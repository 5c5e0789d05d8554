package config

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// definitions is where the CustomResourceDefinitions lie, in a folder for each group.
const definitions = "crd/bases"

// Definitions returns the CustomResourceDefinitions of all kinds, one YAML document each, so that a file can be checked
// without a cluster.
func Definitions() ([][]byte, error) {
	var all [][]byte
	err := fs.WalkDir(tree, definitions, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path.Base(file), "kruntimes.io_") {
			return err
		}
		content, err := tree.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(all, content)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the definitions: %w", err)
	}
	return all, nil
}
