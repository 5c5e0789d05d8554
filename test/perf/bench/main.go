// Command bench measures Runs on the embedded control plane beside the floor, and prints a table. It judges nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/test/perf"
)

func main() {
	quick := flag.Bool("quick", false, "measure less, in under two minutes")
	jsonFile := flag.String("json", os.Getenv("BENCH_JSON"), "also write the report as JSON to this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *quick, *jsonFile); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, quick bool, jsonFile string) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	var report perf.Report
	err := sitting(ctx, perf.OneStepJobs, func(s perf.Suite, parts func() []perf.Process) (err error) {
		s.Quick = quick
		if report, err = perf.Run(ctx, s); err != nil {
			return err
		}
		for _, p := range parts() {
			if p.Name != perf.Supervisor { // there are many, and they hold next to nothing
				report.Memory = append(report.Memory, perf.Resident(p))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = sitting(ctx, "", func(s perf.Suite, _ func() []perf.Process) error { return perf.RunJobWorkspaces(ctx, s, &report) })
	if err != nil {
		return err
	}
	if jsonFile != "" {
		file, err := os.Create(jsonFile)
		if err != nil {
			return fmt.Errorf("opening the JSON file: %w", err)
		}
		defer func() { _ = file.Close() }()
		if err := report.WriteJSON(file); err != nil {
			return fmt.Errorf("writing the JSON file: %w", err)
		}
	}
	return report.WriteTable(os.Stdout)
}

// sitting starts a control plane, whose manager gets the configuration, and measures on it. parts lists its processes.
func sitting(ctx context.Context, configuration string, measure func(s perf.Suite, parts func() []perf.Process) error) error {
	state, err := os.MkdirTemp("", "kruntimes-bench-")
	if err != nil {
		return fmt.Errorf("making a state directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(state) }()
	options := devcluster.Options{
		StateDir: state, Progress: os.Stderr, Environ: os.Environ(), OwnsProcess: true, SeparateProcesses: true,
		Binaries: devcluster.Binaries{
			Kubelet:  []string{"bin/krt", "dev", "kubelet"},
			Runtimed: "bin/runtimed", RuntimeServer: "bin/runtime-server", Manager: "bin/manager", Scheduler: "bin/scheduler",
		},
	}
	if configuration != "" {
		file, err := os.CreateTemp("", "kruntimes-bench-*.yaml")
		if err != nil {
			return fmt.Errorf("making a file for the manager's configuration: %w", err)
		}
		defer func() { _ = os.Remove(file.Name()) }()
		_, err = file.WriteString(configuration)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("writing the manager's configuration: %w", err)
		}
		options.ManagerConfigFile = file.Name()
	}
	cluster, err := devcluster.Start(ctx, options)
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	defer cluster.Stop()
	parts := func() []perf.Process { return processesOf(cluster, state) }
	return measure(perf.Suite{
		Config: cluster.Config(), Log: os.Stderr,
		Processes: func() []perf.Process { return append(parts(), perf.Process{Name: "bench", PID: os.Getpid()}) },
	}, parts)
}

// processesOf lists the parts of the cluster that have a process of their own, and those of its nodes.
func processesOf(cluster *devcluster.Cluster, state string) []perf.Process {
	var all []perf.Process
	for _, part := range cluster.State().Parts {
		if part.PID != 0 && part.PID != os.Getpid() {
			all = append(all, perf.Process{Name: part.Name, PID: part.PID})
		}
	}
	return append(all, perf.NodeProcesses(state)...)
}
