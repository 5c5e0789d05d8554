package runtimeserver

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// maxIdle is how many supervisors wait at most for executions to come.
	maxIdle = 32
	// idleTime is how long more supervisors than the spare ones wait when no execution ends.
	idleTime = time.Minute
)

// pool keeps supervisors that wait, so that an execution does not wait for the start of one. It is refilled while
// executions run, and takes back the supervisors of executions that left nothing behind: starting a Go program costs
// several times what starting a small command does.
type pool struct {
	log       logr.Logger
	processes *processes
	spare     int

	mu     sync.Mutex
	idle   []*supervisorProcess
	coming int // supervisors that are being started
	closed bool
	trim   *time.Timer
}

func newPool(log logr.Logger, processes *processes, spare int) *pool {
	p := &pool{log: log, processes: processes, spare: spare}
	p.trim = time.AfterFunc(idleTime, p.trimIdle)
	return p
}

// take returns a supervisor that waits, or starts one.
func (p *pool) take(ctx context.Context) (*supervisorProcess, error) {
	process := p.takeIdle()
	go p.fill(ctx)
	if process != nil {
		return process, nil
	}
	return p.processes.spawn(ctx)
}

func (p *pool) takeIdle() *supervisorProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		process := p.idle[last]
		p.idle = p.idle[:last]
		if !process.isGone() {
			return process
		}
		_ = process.conn.Close()
	}
	return nil
}

// put takes back a supervisor whose execution is over and left nothing behind.
func (p *pool) put(process *supervisorProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		_ = process.conn.Close()
		return
	}
	p.idle = append(p.idle, process)
	p.trim.Reset(idleTime)
}

// trimIdle ends the supervisors that a burst of executions left, and that nobody asked for since.
func (p *pool) trimIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > p.spare {
		last := len(p.idle) - 1
		_ = p.idle[last].conn.Close()
		p.idle = p.idle[:last]
	}
}

// fill starts supervisors until as many as wanted wait. A start that fails is tried again with the next execution.
func (p *pool) fill(ctx context.Context) {
	for p.reserve() {
		process, err := p.processes.spawn(ctx)
		p.mu.Lock()
		p.coming--
		p.mu.Unlock()
		if err != nil {
			p.log.Error(err, "Started no spare supervisor")
			return
		}
		p.put(process)
	}
}

func (p *pool) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle)+p.coming >= p.spare {
		return false
	}
	p.coming++
	return true
}

// close ends the supervisors that wait, and waits for their end as long as ctx allows.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	idle := p.idle
	p.closed, p.idle = true, nil
	p.trim.Stop()
	p.mu.Unlock()
	for _, process := range idle {
		_ = process.conn.Close()
	}
	for _, process := range idle {
		select {
		case <-process.gone:
		case <-ctx.Done():
			return
		}
	}
}
