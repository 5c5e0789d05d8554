// Command certmanager runs the controllers of cert-manager against the API server of a kubeconfig, until it is told to stop.
// It prints "ready" on a line of its own when Certificates are worked on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/test/certmanager"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	beside, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the definitions: %w", err)
	}
	options := certmanager.Options{Ready: func() { fmt.Println("ready") }}
	flags := flag.NewFlagSet("certmanager", flag.ContinueOnError) // Libraries add theirs to the one of the program.
	flags.StringVar(&options.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "`File` that tells how to reach the API server")
	flags.StringVar(&options.Definitions, "definitions", filepath.Clean(beside)+"-crds", "`Folder` with the CRDs, which are applied first; empty to leave them")
	quiet := flags.Bool("quiet", false, "Say nothing but that it is ready, and what ends it")
	if err := flags.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	logger := klog.NewKlogr()
	if *quiet {
		logger = logr.Discard()
		klog.SetLogger(logger)
	}
	ctrl.SetLogger(logger)
	return certmanager.Run(logr.NewContext(ctx, logger), options)
}
