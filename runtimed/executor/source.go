package executor

import (
	"context"
	"os"
	"slices"
	"sync"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/gitsource"
	"kruntimes.io/kruntimes/runtimed/staging"
)

// program is what is executed before the arguments of the Run.
type program struct {
	// words are put in front of the arguments.
	words []string
	// interpreter is what does not exist when the execution cannot find its command; empty when that is the command.
	interpreter string
}

// fetch checks the git source of run out, into the working directory of the execution, and returns what is to be
// executed of it. It returns false when the Run ends before that, and how, or nothing when the Run or the process left.
func (c *claim) fetch(ctx context.Context, run *corev1alpha1.Run, dir *staging.Directory) (program, *decision.Result, bool) {
	if run.Spec.Source == nil || run.Spec.Source.Git == nil {
		return program{}, nil, true
	}
	git := gitsource.Source{URL: run.Spec.Source.Git.URL, Revision: run.Spec.Source.Git.Revision}
	result, ok, err := c.unlessStopped(ctx, func(ctx context.Context) error {
		return dir.FillSource(func(at *os.File) error {
			commit, err := c.e.Sources.Fetch(ctx, at, git)
			if err == nil {
				c.log.Info("Fetched source", "commit", commit)
			}
			return err
		})
	})
	if !ok {
		return program{}, result, false
	}
	var entry staging.Entrypoint
	if err == nil {
		entry, err = dir.Entrypoint(run.Spec.Mode.Task.Entrypoint)
	}
	if err != nil {
		failure := decision.SourceFailed(err)
		return program{}, &failure, false
	}
	return programFor(entry, c.e.Interpreter), nil, true
}

// unlessStopped calls act, whose context ends when the Run must not start any more. It returns false when that happened
// before act was done, and how the Run ends, or nothing when the Run or the process left.
func (c *claim) unlessStopped(ctx context.Context, act func(ctx context.Context) error) (*decision.Result, bool, error) {
	var err error
	result, isStopped := unless(ctx, c.awaitStop, func(ctx context.Context) { err = act(ctx) })
	if isStopped {
		return result, false, nil
	}
	return nil, ctx.Err() == nil, err
}

// unless calls act, and ends its context when await tells why it must stop: then it returns that, and true. The context of
// await ends with act, at which it returns false.
func unless[T any](ctx context.Context, await func(ctx context.Context) (T, bool), act func(ctx context.Context)) (why T, isStopped bool) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	watch.Go(func() {
		if why, isStopped = await(bounded); isStopped {
			cancel()
		}
	})
	act(bounded)
	cancel()
	watch.Wait()
	return why, isStopped
}

// awaitStop waits until the Run must not start any more, and returns how it ends; nothing when it is not this Pod's any
// more. It returns false when ctx ended before.
func (c *claim) awaitStop(ctx context.Context) (*decision.Result, bool) {
	for {
		if cause := decision.StopAsked(c.current()); cause != decision.StopNone {
			result := decision.StoppedBeforeStart(cause)
			return &result, true
		}
		select {
		case <-c.changed:
		case <-c.left:
			return nil, true
		case <-c.draining:
			result := decision.StoppedBeforeStart(decision.StopShutdown)
			return &result, true
		case <-ctx.Done():
			return nil, false
		}
	}
}

// programFor says how an entrypoint is executed: itself when it can be, else by the Runtime's interpreter.
func programFor(entry staging.Entrypoint, interpreter []string) program {
	if entry.Direct {
		return program{words: []string{entry.Path}, interpreter: entry.Interpreter}
	}
	return program{words: append(slices.Clone(interpreter), entry.Path), interpreter: interpreter[0]}
}
