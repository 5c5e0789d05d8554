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
	// outbox has no buffer: who has an event waits here until a session takes it. The runtime serves those who wait in
	// the order of their coming, so no execution starves another one.
	outbox chan *runtimev1.ServerEvent

	mu       sync.Mutex
	live     map[string]*execution // those whose Exited was not sent
	over     map[string]bool
	overRing []string // the ids in over, oldest first
	refusal  string   // why no execution is taken any more
	ending   bool     // Shutdown came
	ended    chan struct{}
	end      sync.Once
}

func newServer(log logr.Logger, o Options, processes *processes) *server {
	return &server{
		log: log, options: o, processes: processes, pool: newPool(log, processes, o.SpareSupervisors),
		oom: oom.NewCounter(o.Root), outbox: make(chan *runtimev1.ServerEvent),
		live: map[string]*execution{}, over: map[string]bool{}, ended: make(chan struct{}),
	}
}

// emit waits until a session takes event. It reports false when ctx is done before.
func (s *server) emit(ctx context.Context, event *runtimev1.ServerEvent) bool {
	select {
	case s.outbox <- event:
		return true
	case <-ctx.Done():
		return false
	}
}

// execute starts an execution, unless its id is known.
func (s *server) execute(ctx context.Context, spec *runtimev1.Execute) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := spec.GetExecutionId()
	if s.live[id] != nil || s.over[id] {
		return
	}
	e := &execution{server: s, id: id, spec: spec}
	s.live[id] = e
	if s.refusal != "" {
		failure := e.startFailed(fmt.Errorf("the runtime server takes no execution: %w", errors.New(s.refusal)))
		go s.emit(ctx, failure)
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

// checkEnded is called with mu held.
func (s *server) checkEnded() {
	if s.ending && len(s.live) == 0 {
		s.end.Do(func() { close(s.ended) })
	}
}

// delivered notes that a session sent event.
func (s *server) delivered(event *runtimev1.ServerEvent) {
	exited := event.GetExited()
	if exited == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := exited.GetExecutionId()
	delete(s.live, id)
	if len(s.overRing) == rememberedIDs {
		delete(s.over, s.overRing[0])
		s.overRing = s.overRing[1:]
	}
	s.over[id] = true
	s.overRing = append(s.overRing, id)
	s.checkEnded()
}

// liveIDs are the executions of which runtimed has not heard the end.
func (s *server) liveIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.live))
	for id := range s.live {
		ids = append(ids, id)
	}
	return ids
}
