package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// IsEvent tells whether a request writes an event.
func IsEvent(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/")
}

// ErrKilled is what a component that was cut off gets for every write.
var ErrKilled = errors.New("killed by the test")

// RoundTripper is a function that answers requests.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (r RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// Fault lets a number of writes of a component through and then cuts the component off, as if it had been killed: either
// before its next write leaves, or after that write was carried out and before the answer is seen. Events do not count.
type Fault struct {
	// Tripped is closed at the fatal write.
	Tripped chan struct{}

	mu         sync.Mutex
	writes     int
	allowed    int
	answerLost bool
	dead       bool
}

// NewFault lets allowed writes through. With answerLost, the fatal write reaches the server.
func NewFault(allowed int, answerLost bool) *Fault {
	return &Fault{allowed: allowed, answerLost: answerLost, Tripped: make(chan struct{})}
}

// Wrap puts the fault into a component's way to the API server.
func (f *Fault) Wrap(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodGet:
			return next.RoundTrip(r)
		case IsEvent(r):
			return f.event(next, r)
		default:
			return f.write(next, r)
		}
	})
}

// event lets an event through until the component is cut off, and counts none: a component that is started anew tells of
// everything that happened lately, in whichever namespace.
func (f *Fault) event(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	dead := f.dead
	f.mu.Unlock()
	if dead {
		return nil, ErrKilled
	}
	return next.RoundTrip(r)
}

func (f *Fault) write(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return nil, ErrKilled
	}
	if f.writes++; f.writes <= f.allowed {
		return next.RoundTrip(r)
	}
	f.dead = true
	defer close(f.Tripped)
	if f.answerLost {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return nil, ErrKilled
}

// Kills says how KillAtEveryWrite puts a component to the test.
type Kills struct {
	// Prepare makes the work in a namespace of its own, whose name it returns.
	Prepare func(*testing.T) string
	// Start starts the component with the fault in its way, or without where the fault is nil, and returns how to stop it.
	Start func(*testing.T, *Fault) (stop func())
	// Done tells when an unharmed component has finished the work.
	Done func(t *testing.T, namespace string) bool
	// Check looks at what a fresh component makes of the rest.
	Check func(t *testing.T, namespace string)
	// MaxWrites bounds the writes that the work takes.
	MaxWrites int
}

// KillAtEveryWrite runs the component once for every write that it makes, kills it there, and has a fresh one carry on.
func KillAtEveryWrite(t *testing.T, k Kills) {
	t.Helper()
	for _, lost := range []bool{false, true} {
		for n := 0; ; n++ {
			tripped := false
			t.Run(fmt.Sprintf("after %d writes, answer lost %t", n, lost), func(t *testing.T) {
				ns := k.Prepare(t)
				f := NewFault(n, lost)
				stop := k.Start(t, f)
				tripped = f.await(t, func() bool { return k.Done(t, ns) })
				stop()
				k.Start(t, nil)
				k.Check(t, ns)
			})
			if !tripped || t.Failed() {
				break
			}
			if n > k.MaxWrites {
				t.Fatalf("more than %d writes: the component does not come to an end", k.MaxWrites)
			}
		}
	}
}

// await waits until the fault has struck, which it reports with true, or the work is done without.
func (f *Fault) await(t *testing.T, done func() bool) bool {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-f.Tripped:
			return true
		case <-tick.C:
			if done() {
				return false
			}
		case <-deadline:
			t.Fatal("neither was the fault reached nor the work done")
		}
	}
}

// WrapConfig puts the fault into the way of cfg; a nil fault does nothing.
func (f *Fault) WrapConfig(cfg *rest.Config) {
	if f != nil {
		cfg.Wrap(f.Wrap)
	}
}
