package perf

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is a process of the cluster under test.
type Process struct {
	// Name is the name of the component; several processes may share one.
	Name string
	PID  int
}

// Supervisor is the name of the processes between a runtime server and its executions.
const Supervisor = "supervisor"

// NodeProcesses finds every runtimed, runtime server and supervisor whose command line mentions the
// state directory of the cluster, and so of no other cluster.
func NodeProcesses(stateDir string) []Process {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var found []Process
	for _, path := range commands {
		raw, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(raw), stateDir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		argv := strings.Split(string(raw), "\x00")
		switch name := filepath.Base(argv[0]); {
		case name == "runtimed":
			found = append(found, Process{Name: name, PID: pid})
		case name == "runtime-server" && slices.Contains(argv, "serve"):
			found = append(found, Process{Name: name, PID: pid})
		case name == "runtime-server" && slices.Contains(argv, "supervise"):
			found = append(found, Process{Name: Supervisor, PID: pid})
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return strings.Compare(a.Name, b.Name) })
	return found
}
