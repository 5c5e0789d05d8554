// Package stages holds what ctrl-C and requests to terminate do to a command that follows what it has created: the first
// one cancels that and lets the command follow it to its end, the second one leaves at once.
package stages

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/krt/cli"
)

// SameInterrupt is how long after an interrupt another one counts as the same: shells, timeout(1) and others that run
// krt often send the signal to the process and to its group.
const SameInterrupt = 250 * time.Millisecond

// retry is the pause before a cancellation is requested again.
const retry = time.Second

// Cancel asks the cluster for the end of what was created.
type Cancel func(context.Context) error

// Stages are those of one command. A value is used once.
type Stages struct {
	// Interrupts are what the command is told.
	Interrupts *cli.Interrupts
	// Clock measures waits.
	Clock clock.Clock
	// Kind of what is followed, for people.
	Kind cli.Kind
	// Talk tells a person something.
	Talk func(format string, args ...any)

	// Interrupted is set by the first interrupt, Cancelled when the cluster has heard of it, Left by the second.
	Interrupted, Cancelled, Left atomic.Bool

	created chan Cancel
}

// Begin claims the interrupts. The context that it returns ends when the command is to leave at once; end ends it as
// well, and waits until nothing goes on any more.
func (s *Stages) Begin(ctx context.Context) (_ context.Context, end func()) {
	s.created = make(chan Cancel, 1)
	ctx, leave := context.WithCancel(ctx)
	interrupts := s.Interrupts.Claim()
	var going sync.WaitGroup
	going.Go(func() {
		first, ok := next(ctx, interrupts)
		if !ok {
			return
		}
		s.Interrupted.Store(true)
		if first == os.Interrupt {
			s.Talk("cancelling the %s; press ctrl-C again to leave at once", s.Kind)
		} else {
			s.Talk("told to terminate: cancelling the %s; a second signal leaves at once", s.Kind)
		}
		going.Go(func() { s.cancel(ctx) })
		s.skipSame(ctx, interrupts)
		if _, ok := next(ctx, interrupts); ok {
			s.Left.Store(true)
			leave()
		}
	})
	return ctx, func() {
		leave()
		going.Wait()
	}
}

// Created tells that there is something to cancel from now on. It is called once at most.
func (s *Stages) Created(cancel Cancel) { s.created <- cancel }

// ExitCode returns the exit code of the command: that of the interrupt where there was one, else the one given.
func (s *Stages) ExitCode(code int) int {
	if s.Interrupted.Load() {
		return s.Interrupts.ExitCode()
	}
	return code
}

// next waits for an interrupt. It returns false when ctx ends first.
func next(ctx context.Context, interrupts <-chan os.Signal) (os.Signal, bool) {
	select {
	case <-ctx.Done():
		return nil, false
	case sig := <-interrupts:
		return sig, true
	}
}

// skipSame drops the interrupts that belong to the first one.
func (s *Stages) skipSame(ctx context.Context, interrupts <-chan os.Signal) {
	for same := s.Clock.After(SameInterrupt); ; {
		select {
		case <-ctx.Done():
			return
		case <-same:
			return
		case <-interrupts:
		}
	}
}

// cancel asks for the end as soon as there is something to end, and again until the cluster has heard it.
func (s *Stages) cancel(ctx context.Context) {
	var request Cancel
	select {
	case <-ctx.Done():
		return
	case request = <-s.created:
	}
	for told := false; ; told = true {
		err := request(ctx)
		if err == nil {
			s.Cancelled.Store(true)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !told {
			s.Talk("the cancellation could not be requested: %v", err)
		}
		if !cli.IsUnreachable(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(retry):
		}
	}
}
