package gitsource

import "context"

// contextWithDeadline is the context of a child process: it ends by itself, should the test forget it.
func contextWithDeadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), deadline)
}
