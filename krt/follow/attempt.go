package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// Waits between two openings of a log that ends without the end of the attempt.
const (
	firstReopen = 50 * time.Millisecond
	lastReopen  = 2 * time.Second
)

// reopenMargin is how far before the last record a log is reopened. The log's own times are of the same clock as those
// of the records, so this is for a clock that has been set back in between. The cursor drops what comes twice.
const reopenMargin = 5 * time.Second

// endGrace is how long after the end of an attempt its end record is waited for, counted from the last record.
const endGrace = 5 * time.Second

// stallLimit is how long a read of a finished attempt's log may bring nothing at all. A node may have to search through
// a large log before it sends the first byte.
const stallLimit = time.Minute

// NoEndError means that an attempt is over, but its end record is not in the log, so that output may be missing.
type NoEndError struct {
	// Pod is the Pod whose log was read.
	Pod string
	// Err is the last trouble with the log; may be nil.
	Err error
}

func (e *NoEndError) Error() string {
	text := "the log of Pod " + e.Pod + " does not hold the end of the output, some of which may be missing"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the last trouble with the log.
func (e *NoEndError) Unwrap() error { return e.Err }

// errEnded stops a read at the end record of the attempt.
var errEnded = errors.New("the attempt has ended")

// reader delivers the output of one attempt.
type reader struct {
	logReader
	attempt attempt
	clock   clock.Clock
	deliver func(logrecord.Record) error

	cursor cursor
	// trouble is the last error of a log, kept for the case that the end of the attempt is never seen.
	trouble error
	// busy is set while deliver runs, which may block for as long as a person looks at a pager.
	busy atomic.Bool
	// lastRecord is when the last record of the attempt was delivered, lastByte when anything came, both in nanoseconds
	// since 1970.
	lastRecord, lastByte atomic.Int64
}

// quiet is a bound on the time without a sign of life. What counts as one differs.
type quiet struct {
	limit time.Duration
	last  *atomic.Int64
}

// follow delivers records until the end record, which returns nil, or until there is no point in going on. When ctx
// ends first, it returns the context's error.
func (r *reader) follow(ctx context.Context) error {
	wait := firstReopen
	for {
		before := r.cursor
		err := r.once(ctx, true)
		switch {
		case errors.Is(err, errEnded):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && isHopeless(err):
			return err
		}
		r.trouble = err
		if r.cursor != before {
			wait = firstReopen
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.clock.After(wait):
		}
		wait = min(2*wait, lastReopen)
	}
}

// complete is follow for an attempt that may end without an end record: once over is closed and no record has come for
// a while, it reads the log again up to its end, and returns a NoEndError when the end record is not in there either.
// Of what the log holds at the beginning, only the last tail lines are delivered, all when tail is nil.
func (r *reader) complete(ctx context.Context, over <-chan struct{}, tail *int) error {
	if tail != nil {
		if ended, err := r.readTail(ctx, *tail); ended || (err != nil && isHopeless(err)) {
			return err
		}
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	go r.stopWhenQuiet(following, stop, over, quiet{limit: endGrace, last: &r.lastRecord})
	err := r.follow(following)
	if err == nil || ctx.Err() != nil || following.Err() == nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go r.stopWhenQuiet(reading, stop, over, quiet{limit: stallLimit, last: &r.lastByte})
	ended, err := r.settle(reading)
	switch {
	case ended:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && isHopeless(err):
		return err
	case reading.Err() != nil:
		err = fmt.Errorf("the log brought nothing for %s", stallLimit)
	case err == nil:
		err = r.trouble
	}
	return &NoEndError{Pod: r.attempt.pod, Err: err}
}

// stopWhenQuiet calls stop once over is closed and there has been no sign of life for as long as q allows.
func (r *reader) stopWhenQuiet(ctx context.Context, stop context.CancelFunc, over <-chan struct{}, q quiet) {
	select {
	case <-ctx.Done():
		return
	case <-over:
	}
	q.last.Store(r.clock.Now().UnixNano())
	for wait := q.limit; wait > 0; {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(wait):
		}
		wait = q.limit
		if !r.busy.Load() {
			wait -= r.clock.Since(time.Unix(0, q.last.Load()))
		}
	}
	stop()
}

// readTail delivers the last lines of what the log holds now.
func (r *reader) readTail(ctx context.Context, lines int) (ended bool, err error) {
	buffer, deliver := &tail{lines: lines}, r.deliver
	r.deliver = buffer.add
	defer func() { r.deliver = deliver }()
	if err = r.once(ctx, false); errors.Is(err, errEnded) {
		ended, err = true, nil
	}
	return ended, errors.Join(err, buffer.flush(deliver))
}

// settle delivers what is left in the log of a finished attempt, and does not wait for more. It returns whether the end
// record was among it. Where nothing of the attempt is found at all, the clocks may differ by more than expected, and
// the log is read from its very beginning.
func (r *reader) settle(ctx context.Context) (ended bool, err error) {
	err = r.once(ctx, false)
	if err == nil && r.cursor.last.IsZero() {
		r.attempt.assigned = time.Time{}
		err = r.once(ctx, false)
	}
	if errors.Is(err, errEnded) {
		return true, nil
	}
	return false, err
}

// once reads the log one time, that of a runtimed before a restart first. It returns errEnded at the end record.
func (r *reader) once(ctx context.Context, follow bool) error {
	pod, err := r.look(ctx, r.attempt)
	if err != nil {
		return err
	}
	if pod.restarted {
		if err := r.part(ctx, logPart{previous: true, since: r.since()}); err != nil && !apierrors.IsBadRequest(err) {
			return err // a bad request is a previous log that is not there any more
		}
	}
	err = r.part(ctx, logPart{follow: follow, since: r.since()})
	if apierrors.IsNotFound(err) && !pod.seen {
		return &PodGoneError{Pod: r.attempt.pod}
	}
	return err
}

// since is the time from which the log has to be read.
func (r *reader) since() time.Time {
	switch {
	case r.attempt.assigned.IsZero():
		return time.Time{}
	case r.cursor.last.IsZero():
		return r.attempt.assigned.Add(-clockSkew)
	default:
		return r.cursor.last.Add(-reopenMargin)
	}
}

// part reads one log from where the cursor stands.
func (r *reader) part(ctx context.Context, part logPart) error {
	body, err := r.open(ctx, r.attempt, part)
	if err != nil {
		return err
	}
	defer body.Close()
	r.cursor.reopen()
	return eachRecord(watchedReader{Reader: body, r: r}, r.attempt.uid, r.take)
}

// watchedReader notes that bytes come.
type watchedReader struct {
	io.Reader
	r *reader
}

func (w watchedReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.r.lastByte.Store(w.r.clock.Now().UnixNano())
	return n, err
}

// take delivers one record when it belongs to the attempt and is new.
func (r *reader) take(record logrecord.Record) (more bool, err error) {
	if record.UID != r.attempt.uid || record.Attempt != r.attempt.number {
		return true, nil
	}
	if record.End {
		return false, errEnded
	}
	if !r.cursor.accept(record) {
		return true, nil
	}
	r.busy.Store(true)
	err = r.deliver(record)
	r.lastRecord.Store(r.clock.Now().UnixNano())
	r.busy.Store(false)
	return true, err
}
