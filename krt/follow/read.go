package follow

import (
	"context"
	"errors"
)

// ErrNoAttempt means that a Run has never had a Pod, so that there is no output.
var ErrNoAttempt = errors.New("the Run has no Pod")

// Read delivers what the log holds of the Run's present attempt, and does not wait for more. For a finished Run whose
// end is not in the log it returns a NoEndError.
func Read(ctx context.Context, o Options) error {
	a, assigned := attemptOf(o.Run)
	if !assigned {
		return ErrNoAttempt
	}
	r := o.reader(a)
	lines := &tail{}
	if o.Tail != nil {
		lines.lines = *o.Tail
		r.deliver = lines.add
	}
	var err error
	if o.Run.Status.Phase.IsTerminal() {
		var ended bool
		if ended, err = r.settle(ctx); !ended && err == nil {
			err = &NoEndError{Pod: a.pod}
		}
	} else if err = r.once(ctx, false); errors.Is(err, errEnded) {
		err = nil
	}
	return errors.Join(err, lines.flush(o.Sink.Write))
}
