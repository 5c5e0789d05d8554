// Package transfer moves artifacts between the directories of executions and an artifact store: Collect stores what a
// script has left, Stage lays out what a script is to find.
//
// A store may be gone, full, or slower than any use. What fails at it is tried again for a bounded time, what hardly moves
// is given up, and the end of the caller's context ends everything soon, also where the store does not answer to it. What
// user code has left, or does meanwhile, is opened through package opening only.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/runtimed/decision"
)

const (
	// leastProgress is how much has to move within the standstill. Unit: bytes.
	leastProgress = 64 * 1024
	// standstill is for how many times the patience hardly anything may move. A store that takes large parts is not read for
	// by the byte: while the first ones are on their way, nothing is seen to move.
	standstill = 2
	// abandonAfter is how long a store that does not answer to the end of a context is waited for.
	abandonAfter = 3 * time.Second
	// maxEntries bounds the files and directories of one artifact.
	maxEntries = 100_000
)

// errSlow is the error of a transfer that is given up.
var errSlow = errors.New("the artifact store is too slow")

// errCut is returned to a store that goes on after it was given up.
var errCut = errors.New("the transfer was given up")

// Options are what a Mover works with. All are required.
type Options struct {
	// Store holds the artifacts.
	Store artifacts.Store
	// Limits bound each Run.
	Limits decision.ArtifactLimits
	// Patience bounds how long a failing store is tried again. Within twice that time something has to move.
	Patience time.Duration
	// Failed is called when the store has failed, Worked when it has done what it was asked for. They return at once.
	Failed, Worked func()
	// Clock measures the waits.
	Clock clock.Clock
	// Log receives what is tried again.
	Log logr.Logger
}

// Mover moves artifacts. It is safe for concurrent use.
type Mover struct{ Options }

// New returns a Mover.
func New(opts Options) *Mover { return &Mover{Options: opts} }

// localError is an error that is not the store's.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// local marks an error as none of the store's; nil stays nil.
func local(err error) error {
	if err == nil {
		return nil
	}
	return localError{err}
}

// isLocal tells whether the store has nothing to do with an error.
func isLocal(err error) bool { return errors.As(err, new(localError)) }

// act is something that is done with the store. What it moves is counted.
type act[T any] func(ctx context.Context, moved *meter) (T, error)

// try acts until that succeeds, fails for good, or has failed for as long as the patience lasts. doing is what it does, for
// messages.
func try[T any](ctx context.Context, m *Mover, doing string, do act[T]) (T, error) {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 7, Cap: 15 * time.Second}
	var deadline time.Time
	for {
		result, err := watched(ctx, m, doing, do)
		if err == nil {
			m.Worked()
		}
		if err == nil || ctx.Err() != nil || isLocal(err) {
			return result, err
		}
		m.Failed()
		now, pause := m.Clock.Now(), backoff.Step()
		if deadline.IsZero() {
			deadline = now.Add(m.Patience)
		}
		if !decision.StorePasses(err) || errors.Is(err, errSlow) || now.Add(pause).After(deadline) {
			return result, err
		}
		m.Log.Info("Tries the artifact store again", "cause", err.Error(), "pause", pause.String())
		timer := m.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return result, err
		}
	}
}

// outcome is what became of an act.
type outcome[T any] struct {
	result T
	err    error
}

// watched acts once. An act that hardly moves is ended, and one that does not end with its context is left behind.
func watched[T any](ctx context.Context, m *Mover, doing string, do act[T]) (T, error) {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	moved := &meter{}
	done := make(chan outcome[T], 1)
	go func() { // ends with the act, which reads and writes nothing more once it is left behind
		result, err := do(bounded, moved)
		done <- outcome[T]{result, err}
	}()
	window := standstill * m.Patience
	timer := m.Clock.NewTimer(window)
	defer timer.Stop()
	ended := bounded.Done()
	var abandoned <-chan time.Time
	var before int64
	for {
		select {
		case o := <-done:
			return o.result, wordsOf(context.Cause(bounded), o.err)
		case <-timer.C():
			now := moved.bytes()
			if now-before < leastProgress {
				cancel(fmt.Errorf("%s: %w: it moved %d bytes in %s", doing, errSlow, now-before, window))
			}
			before = now
			timer.Reset(window)
		case <-ended:
			ended, abandoned = nil, m.Clock.After(abandonAfter)
		case <-abandoned:
			moved.cut()
			var nothing T
			return nothing, fmt.Errorf("%s: the artifact store does not answer: %w", doing, context.Cause(bounded))
		}
	}
}

// wordsOf is the error of an act whose context may have ended for a cause of ours, which says more than its own words.
func wordsOf(cause, err error) error {
	if err != nil && errors.Is(cause, errSlow) {
		return cause
	}
	return err
}

// meter counts what moves, and ends it.
type meter struct {
	mu    sync.Mutex
	moved int64
	isCut bool
}

func (m *meter) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

// cut lets nothing move any more.
func (m *meter) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isCut = true
}

// reader counts what is read of r.
func (m *meter) reader(r io.Reader) io.Reader { return &meteredReader{meter: m, from: r} }

type meteredReader struct {
	meter *meter
	from  io.Reader
}

func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if cut := r.meter.count(int64(n)); cut != nil {
		return 0, cut
	}
	return n, err
}

// count counts n more bytes. Errors: errCut once nothing may move any more.
func (m *meter) count(n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isCut {
		return errCut
	}
	m.moved += n
	return nil
}

// File returns the file that is read, if there is one: what is copied from it counts as well.
func (r *meteredReader) File() (*os.File, func(n int64) error) {
	if c, ok := r.from.(artifacts.FileContent); ok {
		from, moved := c.File()
		return from, func(n int64) error { return cmp.Or(r.meter.count(n), moved(n)) }
	}
	return nil, nil
}

// content is what is read to be stored: its errors are not the store's.
type content struct{ from io.Reader }

// File returns the file, if what is stored is one.
func (c content) File() (*os.File, func(n int64) error) {
	from, _ := c.from.(*os.File)
	return from, func(int64) error { return nil }
}

func (c content) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = local(err)
	}
	return n, err
}
