package runs

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is one process of the machine.
type process struct {
	pid     int
	argv    []string
	environ []string
}

// processes lists the processes of the machine that mention the cluster's state directory on their command line.
func processes() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var found []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		argv := zeroSeparated(filepath.Join(dir, "cmdline"))
		if slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, "--socket=") }) {
			found = append(found, process{pid: pid, argv: argv, environ: zeroSeparated(filepath.Join(dir, "environ"))})
		}
	}
	return found
}

func zeroSeparated(path string) []string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

func (p process) flag(name string) string {
	for _, arg := range p.argv {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// runtimed finds the runtimed process of the scene's Pods; 0 when there is none.
func (s *scene) runtimed() process {
	for _, p := range processes() {
		if filepath.Base(p.argv[0]) == "runtimed" && slices.Contains(p.environ, "POD_NAMESPACE="+s.namespace) {
			return p
		}
	}
	return process{}
}

// runtimeServer finds the runtime server that shares a socket with the scene's runtimed.
func (s *scene) runtimeServer() process {
	socket := s.runtimed().flag("socket")
	for _, p := range processes() {
		if filepath.Base(p.argv[0]) == "runtime-server" && slices.Contains(p.argv, "serve") && socket != "" && p.flag("socket") == socket {
			return p
		}
	}
	return process{}
}

// kill ends a process at once, as the kernel's memory killer would.
func (s *scene) kill(p process) {
	s.t.Helper()
	if p.pid == 0 {
		s.t.Fatal("the process to kill is not there")
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("killing %v: %v", p.argv, err)
	}
}
