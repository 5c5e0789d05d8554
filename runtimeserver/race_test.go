//go:build race

package runtimeserver_test

// buildFlags make the built server find races where the tests look for them.
var buildFlags = []string{"-race"}

const (
	// isRace tells that sizes of the server say nothing, and that it is slow.
	isRace = true
	// memoryLimit is enough for the server and little more.
	memoryLimit = 400 << 20
	// muchOutput is more than any buffer on the way holds.
	muchOutput = 8 << 20
)
