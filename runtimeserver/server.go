package runtimeserver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimeserver/oom"
)

// rememberedIDs is how many executions that are over are remembered, so that an Execute that is sent again runs nothing.
const rememberedIDs = 4096

// server is what outlives a session: the executions and what they need.
type server struct {
	log       logr.Logger
	options   Options
	processes *processes
	pool      *pool
	oom       oom.Counter

	mu       sync.Mutex
	live     map[string]*execution // those that runtimed has not forgotten
	over     map[string]bool
	overRing []string // the ids in over, oldest first
	// ready are the executions that have something for the session, in the order of their coming, so that none starves
	// another one. wake holds a token when there is one.
	ready []*execution
	wake  chan struct{}
	// deaf tells that nobody will be told anything any more.
	deaf    bool
	refusal string // why no execution is taken any more
	ending  bool   // Shutdown came
	ended   chan struct{}
	end     sync.Once
}

func newServer(log logr.Logger, o Options, processes *processes) *server {
	return &server{
		log: log, options: o, processes: processes, pool: newPool(log, processes, o.SpareSupervisors),
		oom: oom.NewCounter(o.Root), wake: make(chan struct{}, 1),
		live: map[string]*execution{}, over: map[string]bool{}, ended: make(chan struct{}),
	}
}

// execute starts an execution, unless its id is known.
func (s *server) execute(ctx context.Context, spec *runtimev1.Execute) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := spec.GetExecutionId()
	if s.over[id] {
		return
	}
	if e := s.live[id]; e != nil {
		s.attach(e)
		return
	}
	e := newExecution(s, spec)
	s.live[id] = e
	s.attach(e)
	if s.refusal != "" {
		e.journal.exited = e.startFailed(fmt.Errorf("the runtime server takes no execution: %w", errors.New(s.refusal)))
		s.announce(e)
		return
	}
	go e.run(ctx)
}

func (s *server) stop(stop *runtimev1.Stop) {
	s.mu.Lock()
	e := s.live[stop.GetExecutionId()]
	s.mu.Unlock()
	if e != nil {
		e.requestStop(stop)
	}
}

// refuse takes the server out of service; what runs may end.
func (s *server) refuse(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal == "" {
		s.refusal = reason
		s.log.Info("Stopped taking executions", "reason", reason)
	}
}

// shutdown stops every execution without grace. The server has ended when each of them is over and reported.
func (s *server) shutdown() {
	s.refuse("it was told to shut down")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for id, e := range s.live {
		go e.requestStop(&runtimev1.Stop{ExecutionId: id})
	}
	s.checkEnded()
}

// isEnding reports whether Shutdown came.
func (s *server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// checkEnded is called with mu held. The server has ended when every execution is over, and runtimed told so.
func (s *server) checkEnded() {
	if !s.ending {
		return
	}
	for _, e := range s.live {
		if !e.reported {
			return
		}
	}
	s.end.Do(func() { close(s.ended) })
}

// remember keeps an id from being executed again. It is called with mu held.
func (s *server) remember(id string) {
	delete(s.live, id)
	if len(s.overRing) == rememberedIDs {
		delete(s.over, s.overRing[0])
		s.overRing = s.overRing[1:]
	}
	s.over[id] = true
	s.overRing = append(s.overRing, id)
	s.checkEnded()
}
