package runtimeserver_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"kruntimes.io/kruntimes/runtimeserver/proctree"
)

// childrenOf returns the children of a process, zombies included.
func childrenOf(pid int) []int {
	return proctree.NewReader("/proc").Children(pid)
}

// stateOf returns the letter of a process's state, or nothing when it is gone.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

// microsPerTick is the unit in which the kernel reports times of processes: USER_HZ is 100 everywhere.
const microsPerTick = 10000

// cpuTicks is the processor time of a process, its children that live, and everything that they have reaped.
func cpuTicks(pid int) int {
	total := 0
	for _, pid := range append(childrenOf(pid), pid) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(rest)[11:15] {
			ticks, _ := strconv.Atoi(field)
			total += ticks
		}
	}
	return total
}

// residentKiB is the memory of a process that is in RAM, and how much of that is its own. The latter is 0 for an
// ordinary user, since the server is not dumpable.
func residentKiB(pid int) (resident, private int) {
	for _, file := range []string{"status", "smaps_rollup"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 {
				continue
			}
			value, _ := strconv.Atoi(fields[1])
			switch fields[0] {
			case "VmRSS:":
				resident = value
			case "Private_Clean:", "Private_Dirty:":
				private += value
			}
		}
	}
	return resident, private
}
