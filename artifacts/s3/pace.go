package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// stretch is how much of a download must arrive in the time that is given. Unit: bytes.
const stretch = 1 << 20

// pace is how slow a service may be. It would otherwise keep a Run for as long as it likes.
type pace struct {
	// upload bounds a request that sends content, all attempts together.
	upload time.Duration
	// download bounds each stretch of an answer.
	download time.Duration
}

var usualPace = pace{upload: 10 * time.Minute, download: 5 * time.Minute}

// slowError tells that a service was slower than allowed.
type slowError struct{ what string }

func (e *slowError) Error() string { return "the service is too slow: " + e.what }

// request returns the context of a request that sends content.
func (p pace) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.upload, &slowError{fmt.Sprintf("it did not take a part in %s", p.upload)})
}

// slow returns the slowError with which the context of a request ended, else err.
func slow(ctx context.Context, err error) error {
	var late *slowError
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}

// body returns what a service answers. Its errors are those of a store. Cancel ends the request, whose context is ctx.
func (p pace) body(ctx context.Context, cancel context.CancelCauseFunc, doing string, answer io.ReadCloser) io.ReadCloser {
	b := &body{ctx: ctx, cancel: cancel, doing: doing, answer: answer, pace: p}
	b.timer = time.AfterFunc(p.download, func() {
		cancel(&slowError{fmt.Sprintf("less than %d bytes in %s", stretch, p.download)})
	})
	return b
}

type body struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	doing  string
	answer io.ReadCloser
	pace   pace
	timer  *time.Timer
	read   int // in this stretch
}

// Read reads the answer.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.answer.Read(p)
	if b.read += n; b.read >= stretch {
		b.read = 0
		b.timer.Reset(b.pace.download)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	if err := slow(b.ctx, err); b.ctx.Err() == nil || isSlow(err) {
		return n, storeError(b.doing, err)
	}
	return n, fmt.Errorf("%s: %w", b.doing, context.Cause(b.ctx))
}

func isSlow(err error) bool {
	var late *slowError
	return errors.As(err, &late)
}

// Close ends the request.
func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.answer.Close()
}
