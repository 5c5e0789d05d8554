package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Interrupts decides what ctrl-C and requests to terminate do. By default the first one cancels the context of the command, and a second one
// tells the caller of Notify to leave at once. A command that has its own idea of interrupts claims them.
type Interrupts struct {
	mu      sync.Mutex
	cancel  context.CancelFunc
	seen    int
	last    os.Signal
	claimed chan os.Signal
}

// NewInterrupts returns a context for the command, and the Interrupts that end it.
func NewInterrupts(ctx context.Context) (context.Context, *Interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, &Interrupts{cancel: cancel}
}

// Notify reports one interrupt. It returns false when nobody is left to handle it and the program should end now.
func (i *Interrupts) Notify(sig os.Signal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = sig
	if i.claimed != nil {
		select {
		case i.claimed <- sig:
		default: // the command has enough of them already
		}
		return true
	}
	i.cancel()
	i.seen++
	return i.seen == 1
}

// Seen tells whether an interrupt has cancelled the command's context.
func (i *Interrupts) Seen() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen > 0
}

// Claim hands every further interrupt to the caller, who thereby promises to end soon after the second one.
func (i *Interrupts) Claim() <-chan os.Signal {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.claimed == nil {
		i.claimed = make(chan os.Signal, 2)
	}
	return i.claimed
}

// ExitCode returns the exit code of a program that the last interrupt ended: 128 and the number of the signal.
func (i *Interrupts) ExitCode() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return SignalCode(i.last)
}

// SignalCode returns the exit code of a program that sig ended: 128 and its number, as a shell says it.
func SignalCode(sig os.Signal) int {
	if number, ok := sig.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return ExitInterrupted
}

// OutliveReaders lets a command learn that whoever read its output has left: until stop is called, writing to a broken pipe
// returns syscall.EPIPE, instead of ending krt at once.
func OutliveReaders() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}
