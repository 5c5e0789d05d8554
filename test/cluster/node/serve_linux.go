package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// supervisor starts and stops parts, and takes leave of every process that ends on the node: as the first process of its
// namespace it inherits those whose parent is gone.
type supervisor struct {
	logs string

	// mu also orders the start of a process before the news of its end.
	mu    sync.Mutex
	order []string
	parts map[string]*running
}

// running is the last process of a part.
type running struct {
	part   Part
	starts int
	pid    int
	done   chan struct{} // closed when the process is gone
	exit   string        // how it ended
}

func (r *running) isRunning() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

func (r *running) state() State {
	return State{Name: r.part.Name, Running: r.isRunning(), PID: r.pid, Starts: r.starts, Exit: r.exit}
}

// start starts part, or the part of this name again when it has no arguments.
func (s *supervisor) start(part Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.parts[part.Name]
	switch {
	case last == nil && len(part.Args) == 0:
		return fmt.Errorf("there is no part %s", part.Name)
	case last != nil && last.isRunning():
		return fmt.Errorf("part %s runs already", part.Name)
	case len(part.Args) == 0:
		part = last.part
	}
	log, err := os.OpenFile(filepath.Join(s.logs, part.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", part.Name, err)
	}
	defer log.Close() // the process has a copy
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("opening an empty input: %w", err)
	}
	defer nothing.Close()
	process, err := os.StartProcess(part.Args[0], part.Args, &os.ProcAttr{
		Env: append(os.Environ(), part.Env...), Files: []*os.File{nothing, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", part.Name, err)
	}
	next := &running{part: part, starts: 1, pid: process.Pid, done: make(chan struct{})}
	_ = process.Release() // reap waits for it
	if last == nil {
		s.order = append(s.order, part.Name)
	} else {
		next.starts = last.starts + 1
	}
	s.parts[part.Name] = next
	return nil
}

func (s *supervisor) stop(name string, grace time.Duration) error {
	s.mu.Lock()
	r := s.parts[name]
	s.mu.Unlock()
	if r == nil {
		return fmt.Errorf("there is no part %s", name)
	}
	if grace > 0 {
		s.signal(r, syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-r.done:
			return nil
		case <-timer.C:
		}
	}
	s.signal(r, syscall.SIGKILL)
	<-r.done
	return nil
}

// signal never reaches a process that took the number of one that is gone, since numbers are given back under the lock.
func (s *supervisor) signal(r *running, signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.isRunning() {
		_ = syscall.Kill(r.pid, signal) // the only error is that it is a zombie
	}
}

// reap takes leave of processes as they end. children tells that some may have ended.
func (s *supervisor) reap(children <-chan os.Signal) {
	for range children {
		for s.reapOne() {
		}
	}
}

// reapOne reports whether there was a process to take leave of.
func (s *supervisor) reapOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	for _, r := range s.parts {
		if r.pid == pid && r.isRunning() {
			r.exit = describe(status)
			close(r.done)
		}
	}
	return true
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("ended by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

func (s *supervisor) states() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]State, len(s.order))
	for i, name := range s.order {
		states[i] = s.parts[name].state()
	}
	return states
}

func (s *supervisor) handler() http.Handler {
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, json.NewEncoder(w).Encode(s.states()))
	})
	mux.HandleFunc("POST /parts", func(w http.ResponseWriter, r *http.Request) {
		var part Part
		if err := json.NewDecoder(r.Body).Decode(&part); err != nil {
			answer(w, fmt.Errorf("reading the part: %w", err))
			return
		}
		answer(w, s.start(part))
	})
	mux.HandleFunc("POST /parts/{name}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.start(Part{Name: r.PathValue("name")}))
	})
	mux.HandleFunc("DELETE /parts/{name}", func(w http.ResponseWriter, r *http.Request) {
		grace, err := time.ParseDuration(r.URL.Query().Get("grace"))
		if err != nil {
			answer(w, fmt.Errorf("reading the grace: %w", err))
			return
		}
		answer(w, s.stop(r.PathValue("name"), grace))
	})
	return mux
}

// listen opens the socket on which the node takes orders, for its owner alone.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening for orders: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing the socket to others: %w", err), listener.Close())
	}
	return listener, nil
}
