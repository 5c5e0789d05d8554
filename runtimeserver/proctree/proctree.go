// Package proctree finds the processes that descend from a process, and stops or kills all of them.
//
// A tree moves while one looks at it: processes fork, exit and are handed to the nearest subreaper. So no single look
// is trusted. Freeze repeats until a whole look shows no process that it has not stopped yet, and its callers repeat
// until the kernel itself says, by ECHILD, that nothing is left.
package proctree

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Reader reads the process table from a mounted proc file system.
type Reader struct {
	root string
	// byTask tells that the kernel offers task/<tid>/children, which costs a read per thread of the tree instead of
	// a look at every process of the machine.
	byTask bool
}

// NewReader returns a Reader of the proc file system mounted at root.
func NewReader(root string) *Reader {
	self := filepath.Join(root, "self", "task")
	tids, err := os.ReadDir(self)
	if err != nil || len(tids) == 0 {
		return &Reader{root: root}
	}
	_, err = os.Stat(filepath.Join(self, tids[0].Name(), "children"))
	return &Reader{root: root, byTask: err == nil}
}

// Children returns the direct children of pid, zombies included.
func (r *Reader) Children(pid int) []int {
	if !r.byTask {
		return r.scan()[pid]
	}
	return r.childrenByTask(pid)
}

// Descendants returns everything below the given processes, parents before their children. The given processes
// themselves are not in it.
func (r *Reader) Descendants(pids ...int) []int {
	children := r.childrenByTask
	if !r.byTask {
		childrenByParent := r.scan()
		children = func(pid int) []int { return childrenByParent[pid] }
	}
	seen := make(map[int]bool, len(pids))
	for _, pid := range pids {
		seen[pid] = true
	}
	var found []int
	for queue := pids; len(queue) > 0; queue = queue[1:] {
		for _, child := range children(queue[0]) {
			if !seen[child] {
				seen[child] = true
				found = append(found, child)
				queue = append(queue, child)
			}
		}
	}
	return found
}

func (r *Reader) childrenByTask(pid int) []int {
	tasks := filepath.Join(r.root, strconv.Itoa(pid), "task")
	dir, err := os.Open(tasks)
	if err != nil {
		return nil // It ended since it was listed; its children have another parent now.
	}
	defer func() { _ = dir.Close() }()
	tids, _ := dir.Readdirnames(-1)
	var pids []int
	for _, tid := range tids {
		text, err := os.ReadFile(filepath.Join(tasks, tid, "children"))
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// scan reads the parent of every process, for kernels without task/<tid>/children.
func (r *Reader) scan() map[int][]int {
	childrenByParent := map[int][]int{}
	dir, err := os.Open(r.root)
	if err != nil {
		return childrenByParent
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(r.root, name, "stat"))
		if err != nil {
			continue
		}
		if _, parent, ok := parseStat(stat); ok {
			childrenByParent[parent] = append(childrenByParent[parent], pid)
		}
	}
	return childrenByParent
}

// isOtherThan reports whether a process is there, in another state than the given ones of /proc/<pid>/stat.
func (r *Reader) isOtherThan(pid int, states string) bool {
	stat, err := os.ReadFile(filepath.Join(r.root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	state, _, ok := parseStat(stat)
	return ok && !bytes.ContainsAny(state, states)
}

// parseStat takes the state and the parent's pid from the text of /proc/<pid>/stat. The second field is the name of the
// program in parentheses, chosen by the program itself, so it may hold spaces and parentheses: the last one ends it.
func parseStat(stat []byte) (state []byte, parent int, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return nil, 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return nil, 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil || parent < 0 {
		return nil, 0, false
	}
	return fields[0], parent, true
}
