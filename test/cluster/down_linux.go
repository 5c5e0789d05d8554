package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// downTimeout bounds the end of all processes of a cluster, and of each cgroup.
const downTimeout = time.Minute

// Down ends the cluster and removes all that it made: processes, interface, cgroups and the state directory. It is no error
// when there is nothing.
func (c *Cluster) Down(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return ErrUnsupported
	}
	if err := c.mayRemove(); err != nil {
		return err
	}
	if err := c.killNode(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", c.hostInterface())); err == nil {
		if err := ip(ctx, "link", "delete", c.hostInterface()); err != nil && !errors.Is(statLink(c.hostInterface()), fs.ErrNotExist) {
			return err
		}
	}
	if err := removeCgroups(ctx, c.cgroup()); err != nil {
		return err
	}
	if err := unmountBelow(c.state); err != nil {
		return err
	}
	if err := os.RemoveAll(c.state); err != nil {
		return fmt.Errorf("removing the state directory: %w", err)
	}
	return nil
}

func statLink(name string) error {
	_, err := os.Stat(filepath.Join("/sys/class/net", name))
	return err
}

// mayRemove refuses to remove a directory that no cluster made.
func (c *Cluster) mayRemove() error {
	entries, err := os.ReadDir(c.state)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("reading the state directory: %w", err)
	}
	if _, err := os.Stat(c.marker()); err != nil {
		return fmt.Errorf("%s is not the state directory of a cluster; choose another one", c.state)
	}
	return nil
}

// nodeArguments are those of the first process of a node, by which it is found again.
func nodeArguments(state string) []string { return []string{"node", "--state", state} }

// killNode kills the first process of the node, and so all processes of its namespace, and waits until they are gone.
func (c *Cluster) killNode(ctx context.Context) error {
	pids, err := findProcesses(nodeArguments(c.state))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := killAndAwait(ctx, pid); err != nil {
			return fmt.Errorf("ending the node: %w", err)
		}
	}
	return nil
}

// killAndAwait kills a process, which need not be a child of this one, and waits for its end. That of the first process of a namespace
// comes after that of all others in there.
func killAndAwait(ctx context.Context, pid int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(process)
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	return until(ctx, downTimeout, fmt.Sprintf("process %d has ended", pid), func(context.Context) (bool, error) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
		if errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return n > 0, err
	})
}

// findProcesses returns the processes that were started with these arguments, whatever the program. One that has ended and
// waits for its parent has none any more.
func findProcesses(arguments []string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"); slices.Equal(words[1:], arguments) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// removeCgroups removes the group of this name in every hierarchy, with all below it.
func removeCgroups(ctx context.Context, name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		group := filepath.Join(root, name)
		if err := until(ctx, downTimeout, "cgroup "+group+" is empty", func(context.Context) (bool, error) {
			return removeCgroup(group)
		}); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup tells whether the group is gone. One is busy for a moment after its last process ended.
func removeCgroup(group string) (bool, error) {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return nil // what cannot be read has gone in between
	})
	if err != nil {
		return false, fmt.Errorf("listing cgroups: %w", err)
	}
	slices.Reverse(groups)
	for _, path := range groups {
		err := syscall.Rmdir(path)
		switch {
		case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ENOTEMPTY):
			return false, nil
		case err != nil && !errors.Is(err, syscall.ENOENT):
			return false, fmt.Errorf("removing cgroup %s: %w", path, err)
		}
	}
	return true, nil
}

// unmountBelow takes away what somebody mounted below the state directory, so that no foreign file is removed.
func unmountBelow(state string) error {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	defer file.Close()
	var below []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && inside(fields[4], state) {
			below = append(below, fields[4])
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	slices.Reverse(below)
	for _, path := range below {
		if err := syscall.Unmount(path, 0); err != nil {
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
	}
	return nil
}
