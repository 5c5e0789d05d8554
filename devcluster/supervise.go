package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"kruntimes.io/kruntimes/devcluster/process"
)

// part is one running piece of the cluster.
type part struct {
	Part
	done <-chan struct{}
	// err says how the part ended; it is called only after done is closed.
	err func() error
	// stop ends the part and returns when it has ended.
	stop func()
	// process is the part's own process, nil for a part inside this one.
	process *process.Process
}

const (
	// kubeletGrace is how long the stand-in has for killing the processes of all Pods.
	kubeletGrace = 20 * time.Second
	// insideGrace is how long a part inside this process has for returning.
	insideGrace = 10 * time.Second
	// quotedLines is how much of a log an error quotes.
	quotedLines = 15
	// reapDeadline bounds the search for processes that a crashed part left.
	reapDeadline = 10 * time.Second
)

// add takes a part into the cluster: from now on its end is the end of the cluster.
func (c *Cluster) add(p *part) error {
	c.mu.Lock()
	c.parts = append(c.parts, p)
	c.mu.Unlock()
	go func() {
		select {
		case <-p.done:
			// Both may be true at once; then the end was asked for.
			if c.ctx.Err() == nil && c.has(p) {
				c.cancel(&PartError{Part: p.Name, Err: p.err()})
			}
		case <-c.ctx.Done():
		}
	}()
	return c.publish()
}

// has tells whether p is a part of the cluster, and has not been replaced.
func (c *Cluster) has(p *part) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.parts, p)
}

// remove takes a part out of the cluster, whose end then means nothing, and returns it; nil when there is none.
func (c *Cluster) remove(name string) *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.parts {
		if p.Name == name {
			c.parts = slices.Delete(slices.Clone(c.parts), i, i+1)
			return p
		}
	}
	return nil
}

// spawn starts a part as a child process.
func (c *Cluster) spawn(name string, command process.Command) (*part, error) {
	command.Clock = c.options.Clock
	if command.Env == nil {
		command.Env = c.childEnviron()
	}
	p, err := process.Start(command)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return &part{
		Part: Part{Name: name, PID: p.PID(), Log: command.LogFile},
		done: p.Done(), err: p.Err, process: p,
		// A cluster's data is never used again, so its servers need no time to say goodbye.
		stop: func() { p.Stop(syscall.SIGKILL, insideGrace) },
	}, nil
}

// childEnviron is the environment of the cluster's own programs. They need little, and so get little: the usual, and the two
// variables that tell programs in Go how to deal with memory.
func (c *Cluster) childEnviron() []string {
	var environ []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOGC", "GOMEMLIMIT"} {
		if value := lookupEnv(c.options.Environ, name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// inside runs a part within this process.
func (c *Cluster) inside(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var result error
	go func() {
		defer close(done)
		result = run(ctx)
	}()
	return &part{
		Part: Part{Name: name, PID: os.Getpid(), Log: c.dirs.log(name)},
		done: done,
		err: func() error {
			if result == nil {
				return errors.New("it returned")
			}
			if tail := process.LogTail(c.dirs.log(name), quotedLines); tail != "" {
				return fmt.Errorf("%w; the end of %s:\n%s", result, c.dirs.log(name), tail)
			}
			return result
		},
		stop: func() {
			cancel()
			select {
			case <-done:
			case <-c.options.Clock.After(insideGrace):
			}
		},
	}
}

// shutdown ends all parts, the last started first, and removes what makes no sense without them.
func (c *Cluster) shutdown() error {
	c.replacing.Lock()
	defer c.replacing.Unlock()
	c.mu.Lock()
	parts := slices.Clone(c.parts)
	c.mu.Unlock()
	for _, p := range slices.Backward(parts) {
		p.stop()
	}
	var errs []error
	if c.options.OwnsProcess {
		errs = append(errs, process.KillChildren(c.options.Clock, reapDeadline))
	}
	return errors.Join(append(errs, c.dirs.clean())...)
}

// poll calls ready at short intervals until it returns true, or until ctx ends.
func (c *Cluster) poll(ctx context.Context, interval time.Duration, ready func() (bool, error)) error {
	ticker := c.options.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C():
		}
	}
}
