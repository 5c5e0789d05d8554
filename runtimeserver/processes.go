package runtimeserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"kruntimes.io/kruntimes/runtimeserver/control"
	"kruntimes.io/kruntimes/runtimeserver/proctree"
)

// controlDescriptor is where a supervisor finds its control connection.
const controlDescriptor = 3

// sweepPause is the time between two looks at orphans that were killed and are not gone yet.
const sweepPause = 10 * time.Millisecond

// supervisorProcess is a supervisor as the server sees it.
type supervisorProcess struct {
	pid  int
	conn *control.Conn
	// gone is closed when the process was reaped. Everything that it left behind is our child by then.
	gone chan struct{}
}

func (p *supervisorProcess) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// processes is the table of our child processes. Supervisors are the only children that may live.
type processes struct {
	log      logr.Logger
	tree     *proctree.Reader
	argv     []string
	null     *os.File
	requests chan chan<- spawned
	look     chan struct{} // has a token when somebody wants a look at orphans

	mu    sync.Mutex // Held while forking, reaping and sweeping, so that no supervisor is taken for an orphan.
	byPID map[int]*supervisorProcess
}

type spawned struct {
	process *supervisorProcess
	err     error
}

func newProcesses(log logr.Logger, argv []string) (*processes, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	p := &processes{
		log: log, tree: proctree.NewReader("/proc"), argv: argv, null: null,
		requests: make(chan chan<- spawned), look: make(chan struct{}, 1), byPID: map[int]*supervisorProcess{},
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go p.spawnAll()
	go p.reapAll(children)
	return p, nil
}

// spawn starts a supervisor.
func (p *processes) spawn(ctx context.Context) (*supervisorProcess, error) {
	answer := make(chan spawned, 1)
	select {
	case p.requests <- answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	result := <-answer
	return result.process, result.err
}

// spawnAll forks all supervisors from one thread that never ends, because a parent-death signal is bound to the thread.
func (p *processes) spawnAll() {
	runtime.LockOSThread()
	for answer := range p.requests {
		process, err := p.fork()
		answer <- spawned{process: process, err: err}
	}
}

func (p *processes) fork() (*supervisorProcess, error) {
	conn, remote, err := control.Pair()
	if err != nil {
		return nil, fmt.Errorf("starting a supervisor: %w", err)
	}
	defer func() { _ = remote.Close() }()
	null, stderr := p.null.Fd(), os.Stderr.Fd()
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(selfExecutable, p.argv, &syscall.ProcAttr{
		// One processor keeps the Go runtime of a process that only waits small.
		Env:   []string{"GOMAXPROCS=1"},
		Files: []uintptr{null, null, stderr, remote.Fd()},
		// When the server dies, its end of the control connection tells the supervisor; SIGCONT makes sure that one
		// that was stopped hears of it.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGCONT},
	})
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("starting a supervisor: %w", err)
	}
	process := &supervisorProcess{pid: pid, conn: conn, gone: make(chan struct{})}
	p.byPID[pid] = process
	return process, nil
}

// lookForOrphans is called when an execution ended. Processes come to PID 1 that never were below a supervisor, from
// shells that people open in the container, and nothing tells that they came. Elsewhere a supervisor must die before
// anything comes, and the kernel tells that.
func (p *processes) lookForOrphans() {
	if os.Getpid() != 1 {
		return
	}
	select {
	case p.look <- struct{}{}:
	default:
	}
}

// reapAll reaps whatever ends, and after each time kills what has become our child without being a supervisor.
func (p *processes) reapAll(children <-chan os.Signal) {
	for {
		select {
		case <-children:
		case <-p.look:
		}
		p.reap()
		if orphans := p.sweep(); orphans > 0 {
			p.log.V(1).Info("Killed orphans", "count", orphans)
		}
	}
}

func (p *processes) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED|unix.WALL, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		process := p.byPID[pid]
		switch {
		case status.Stopped():
			if process != nil {
				_ = unix.Kill(pid, unix.SIGCONT) // Somebody stopped a supervisor, which must always answer.
			}
		case process != nil:
			// Its last words may still lie in the connection: whoever holds it closes it.
			delete(p.byPID, pid)
			close(process.gone)
		}
	}
}

// sweep kills every child that is no supervisor, with everything below it, and returns how many there were. Zombies
// count until they are reaped.
func (p *processes) sweep() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var orphans []int
	for _, pid := range p.tree.Children(os.Getpid()) {
		if p.byPID[pid] == nil {
			orphans = append(orphans, pid)
		}
	}
	if len(orphans) > 0 {
		p.tree.KillEach(orphans...)
	}
	return len(orphans)
}

// awaitNoOrphans returns true when no child but supervisors is left, and false when that takes longer than limit.
func (p *processes) awaitNoOrphans(limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	pause := time.NewTicker(sweepPause)
	defer pause.Stop()
	for {
		p.reap()
		if p.sweep() == 0 {
			return true
		}
		select {
		case <-pause.C:
		case <-deadline.C:
			return false
		}
	}
}
