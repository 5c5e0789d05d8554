// Command pause holds the namespaces of a Pod while its containers come and go. It ends when it is told to.
package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	for {
		select {
		case <-told:
			return
		case <-child:
			reap()
		}
	}
}

// reap takes leave of processes that a Pod with a shared process namespace left to its first process.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
