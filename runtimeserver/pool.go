package runtimeserver

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
)

// maxIdle is how many supervisors are kept for executions to come. More than that many wait only while they are needed.
const maxIdle = 8

// pool keeps supervisors that wait, so that an execution does not wait for the start of one. It is refilled while
// executions run, and takes back the supervisors of executions that left nothing behind.
type pool struct {
	log       logr.Logger
	processes *processes
	spare     int

	mu     sync.Mutex
	idle   []*supervisorProcess
	coming int // supervisors that are being started
	closed bool
}

func newPool(log logr.Logger, processes *processes, spare int) *pool {
	return &pool{log: log, processes: processes, spare: spare}
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
