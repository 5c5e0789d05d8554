// Package cli holds what the commands of krt share: the Factory through which they reach streams, clock and cluster,
// the one table of exit codes, and errors that carry a code and a hint.
package cli
