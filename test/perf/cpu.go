package perf

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which the kernel tells processor times: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time that the processes of one name took under one load, those children included that had ended
// and were waited for.
type CPU struct {
	// Process is the name of the component, Load the name of the load.
	Process string `json:"process"`
	Load    string `json:"load"`
	// FloorMillis and ProductMillis are per Run. Unit: milliseconds.
	FloorMillis   float64 `json:"floorMillisPerRun"`
	ProductMillis float64 `json:"productMillisPerRun"`
}

// times is the processor time of each process so far.
type times map[Process]time.Duration

// timesOf reads the times of processes; one that is gone is left out.
func timesOf(processes []Process) times {
	t := times{}
	for _, p := range processes {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "stat"))
		if err != nil {
			continue
		}
		if spent, err := parseStat(string(raw)); err == nil {
			t[p] = spent
		}
	}
	return t
}

// parseStat adds up utime, stime, cutime and cstime, the fields 14 to 17 of /proc/<pid>/stat. Field 2 is the name in
// brackets, which may hold anything.
func parseStat(stat string) (time.Duration, error) {
	const before, wanted = 11, 4 // fields between the name and utime, and how many there are from there on
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < before+wanted {
		return 0, fmt.Errorf("reading a process' times: %d fields after its name", len(fields))
	}
	total := time.Duration(0)
	for _, field := range fields[before : before+wanted] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading a process' times: %w", err)
		}
		total += time.Duration(ticks) * tick
	}
	return total, nil
}

// since returns what was spent after before, per name. What a process took that has ended meanwhile is its parent's.
func (t times) since(before times) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for p, now := range t {
		spent[p.Name] += now - before[p]
	}
	return spent
}

// compareCPU makes a line for each name that took time on either side, the most expensive first.
func compareCPU(load string, runs int, floor, product map[string]time.Duration) []CPU {
	var lines []CPU
	for name, spent := range product {
		if spent+floor[name] > 0 {
			lines = append(lines, CPU{Process: name, Load: load,
				FloorMillis: millis(floor[name]) / float64(runs), ProductMillis: millis(spent) / float64(runs)})
		}
	}
	slices.SortFunc(lines, func(a, b CPU) int {
		return cmp.Or(cmp.Compare(b.ProductMillis, a.ProductMillis), cmp.Compare(a.Process, b.Process))
	})
	return lines
}
