package config

import (
	"fmt"
	"path"
)

// definitions is where the CustomResourceDefinitions lie.
const definitions = "crd/bases"

// Definitions returns the CustomResourceDefinitions of all kinds, one YAML document each, so that a file can be checked
// without a cluster.
func Definitions() ([][]byte, error) {
	entries, err := tree.ReadDir(definitions)
	if err != nil {
		return nil, fmt.Errorf("listing the definitions: %w", err)
	}
	all := make([][]byte, 0, len(entries))
	for _, entry := range entries {
		content, err := tree.ReadFile(path.Join(definitions, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a definition: %w", err)
		}
		all = append(all, content)
	}
	return all, nil
}
