// Package ports finds ports for servers that have to be told theirs, and to keep it while they are started again.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports from first on, count of them, lie below those that the kernel gives to connections and to servers that take any
// port: so one of them stays free while its server is away.
const (
	first = 20_000
	count = 12_000
)

// attempts is how many ports are tried: all of them taken means that something is wrong.
const attempts = 100

// Free returns a port of the loopback interface that nobody listens on.
func Free() (int, error) {
	var last error
	for range attempts {
		port := first + rand.IntN(count)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("trying port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("finding a free port in %d attempts: %w", attempts, last)
}
