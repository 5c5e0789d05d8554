// Package oom tells how often the kernel killed a process of our own cgroup for its memory use.
package oom

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Counter reads the kernel's count of memory kills. The zero Counter finds no count and always returns 0.
type Counter struct {
	file string
}

// NewCounter finds the counter of the process's own cgroup below root, where proc and sys are mounted: memory.oom_control
// where cgroup v1 holds the memory controller, memory.events with cgroup v2.
//
// A container may see its cgroup's path as the host names it, but the cgroup itself mounted at the top: when the path
// does not exist, the top counts.
func NewCounter(root string) Counter {
	membership, err := os.ReadFile(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return Counter{}
	}
	v1, v2 := paths(string(membership))
	mount := filepath.Join(root, "sys", "fs", "cgroup")
	var files []string
	if v1 != "" {
		files = append(files, candidates(filepath.Join(mount, "memory"), v1, "memory.oom_control")...)
	}
	if v2 != "" {
		files = append(files, candidates(mount, v2, "memory.events")...)
		files = append(files, candidates(filepath.Join(mount, "unified"), v2, "memory.events")...)
	}
	for _, file := range files {
		if _, ok := read(file); ok {
			return Counter{file: file}
		}
	}
	return Counter{}
}

// Kills returns how many processes of the cgroup were killed for memory so far.
func (c Counter) Kills() int64 {
	if c.file == "" {
		return 0
	}
	kills, _ := read(c.file)
	return kills
}

// paths takes the cgroup of the v1 memory controller and the v2 cgroup from the text of /proc/self/cgroup, whose lines
// are hierarchy:controllers:path.
func paths(membership string) (v1, v2 string) {
	for line := range strings.Lines(membership) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[0] == "0" && fields[1] == "" {
			v2 = fields[2]
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if controller == "memory" {
				v1 = fields[2]
			}
		}
	}
	return v1, v2
}

func candidates(mount, cgroup, name string) []string {
	// path.Clean with a leading slash keeps a path like /../.. inside of the mount.
	return []string{filepath.Join(mount, path.Clean("/"+cgroup), name), filepath.Join(mount, name)}
}

func read(file string) (kills int64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "oom_kill" {
			kills, err := strconv.ParseInt(fields[1], 10, 64)
			return kills, err == nil
		}
	}
	return 0, false
}
