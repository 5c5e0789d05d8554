//go:build race

package runtimeserver_test

// buildFlags make the built server find races where the tests look for them.
var buildFlags = []string{"-race"}
