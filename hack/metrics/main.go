// Command metrics writes docs/metrics.md, the page of all metrics of manager and scheduler, from what they register.
//
//	go run ./hack/metrics docs/metrics.md
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	_ "kruntimes.io/kruntimes/manager"   // registers the metrics of the controllers
	_ "kruntimes.io/kruntimes/scheduler" // registers its metrics
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the file to write, got %v", args)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		return fmt.Errorf("gathering what is registered: %w", err)
	}
	if err := os.WriteFile(args[0], []byte(page(families)), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
