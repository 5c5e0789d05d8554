package devcluster

import "kruntimes.io/kruntimes/config"

// Definitions returns the CustomResourceDefinitions that a cluster is given, one YAML document each, so that a manifest
// can be checked without a cluster.
func Definitions() ([][]byte, error) { return config.Definitions() }
