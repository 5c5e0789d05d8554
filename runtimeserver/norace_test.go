//go:build !race

package runtimeserver_test

// buildFlags build the server as it is released.
var buildFlags = []string{"-trimpath", "-ldflags=-s -w"}
