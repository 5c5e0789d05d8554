package perf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Resident reads the resident memory of a process; 0 when it is gone.
func Resident(name string, pid int) Memory {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return Memory{Process: name}
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				return Memory{Process: name, MiB: kib / 1024}
			}
		}
	}
	return Memory{Process: name}
}

// ResidentByName reads the resident memory of every runtimed and runtime server whose command line mentions the state
// directory of the cluster, and so of no other cluster.
func ResidentByName(stateDir string) []Memory {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var found []Memory
	for _, path := range commands {
		raw, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(raw), stateDir) {
			continue
		}
		argv := strings.Split(string(raw), "\x00")
		name := filepath.Base(argv[0])
		if name != "runtimed" && (name != "runtime-server" || !slices.Contains(argv, "serve")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		found = append(found, Resident(name, pid))
	}
	slices.SortFunc(found, func(a, b Memory) int { return strings.Compare(a.Process, b.Process) })
	return found
}
