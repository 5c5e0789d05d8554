package perf

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Resident reads the resident memory of a process; 0 when it is gone.
func Resident(p Process) Memory {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "status"))
	if err != nil {
		return Memory{Process: p.Name}
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				return Memory{Process: p.Name, MiB: kib / 1024}
			}
		}
	}
	return Memory{Process: p.Name}
}
