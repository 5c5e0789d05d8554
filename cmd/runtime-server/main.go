// Command runtime-server is the built-in runtime server: the process in a Runtime's container that executes Runs.
//
//	runtime-server serve --socket=PATH   run processes for runtimed
//	runtime-server install DST           copy this program to DST
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "runtime-server:", err)
		os.Exit(1)
	}
}
