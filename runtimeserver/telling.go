package runtimeserver

import (
	"context"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// This file is what stands between the executions, which fill their journals, and the session, which empties them.

// noteStarted notes that the process of an execution exists.
func (s *server) noteStarted(e *execution, started *runtimev1.Started) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.journal.started = started
	s.announce(e)
}

// noteOutput notes what an execution wrote, as soon as there is room for it. It reports false when ctx is done before.
func (s *server) noteOutput(ctx context.Context, e *execution, stream runtimev1.OutputStream, data []byte) bool {
	for {
		n, room := s.addOutput(e, stream, data)
		if data = data[n:]; len(data) == 0 {
			return true
		}
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

// addOutput takes as much of data as there is room for. It returns how much that is, and what is closed when there may be
// more room.
func (s *server) addOutput(e *execution, stream runtimev1.OutputStream, data []byte) (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf || e.journal.forgotten {
		return len(data), nil
	}
	n := e.journal.backlog(stream).add(data)
	s.announce(e)
	return n, e.room
}

// noteExited notes the end of an execution.
func (s *server) noteExited(e *execution, exited *runtimev1.Exited) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.journal.exited = exited
	switch {
	case e.journal.forgotten:
		s.remember(e.id)
	case s.deaf:
		e.reported = true
		s.checkEnded()
	default:
		s.announce(e)
	}
}

// announce tells the session that e may have something for it. It is called with mu held.
func (s *server) announce(e *execution) {
	if e.queued || !e.journal.attached {
		return
	}
	e.queued = true
	s.ready = append(s.ready, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next returns the next event for the session; nil when there is none now.
func (s *server) next() *runtimev1.ServerEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ready) > 0 {
		e := s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
		e.queued = false
		if event := e.journal.next(); event != nil {
			s.announce(e) // behind the others
			return event
		}
	}
	return nil
}

// sent notes that the session sent event.
func (s *server) sent(event *runtimev1.ServerEvent) {
	exited := event.GetExited()
	if exited == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.live[exited.GetExecutionId()]; e != nil {
		e.reported = true
	}
	s.checkEnded()
}

// detachAll prepares for another session. It returns the ids of all executions that are not forgotten.
func (s *server) detachAll() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ready {
		e.queued = false
	}
	s.ready = nil
	ids := make([]string, 0, len(s.live))
	for id, e := range s.live {
		e.journal.detach()
		if !e.journal.forgotten {
			ids = append(ids, id)
		}
	}
	return ids
}

// attach makes the session carry the events of e. It is called with mu held.
func (s *server) attach(e *execution) {
	e.journal.attached = true
	s.announce(e)
}

// reattach is attach for an id.
func (s *server) reattach(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.live[id]; e != nil {
		s.attach(e)
	}
}

// acknowledge drops output that runtimed has no need of any more.
func (s *server) acknowledge(ack *runtimev1.Acknowledge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.live[ack.GetExecutionId()]
	if e == nil {
		return
	}
	if backlog := e.journal.backlog(ack.GetStream()); backlog != nil {
		backlog.acknowledge(ack.GetBytes())
		e.makeRoom()
	}
}

// forget drops an execution, and stops it when it still runs.
func (s *server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.live[id]
	if e == nil {
		return
	}
	e.journal.forget()
	e.makeRoom()
	if e.journal.exited != nil {
		s.remember(id)
		return
	}
	go e.requestStop(&runtimev1.Stop{ExecutionId: id})
}

// stopTelling lets the executions end without anybody who listens.
func (s *server) stopTelling() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
	for _, e := range s.live {
		e.makeRoom()
		if e.journal.exited != nil {
			e.reported = true
		}
	}
	s.checkEnded()
}

// makeRoom wakes those who wait for room in the journal. It is called with the server's mu held.
func (e *execution) makeRoom() {
	close(e.room)
	e.room = make(chan struct{})
}
