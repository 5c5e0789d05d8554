//go:build !race

package runtimeserver_test

// buildFlags build the server as it is released.
var buildFlags = []string{"-trimpath", "-ldflags=-s -w"}

const (
	// isRace tells that sizes of the server say nothing, and that it is slow.
	isRace = false
	// memoryLimit is enough for the server and little more.
	memoryLimit = 100 << 20
	// muchOutput is more than any buffer on the way holds.
	muchOutput = 64 << 20
)
