// Command runtimed is the sidecar that executes the Runs assigned to its Pod.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"kruntimes.io/kruntimes/runtimed"
)

func main() {
	config := zap.NewProductionConfig()
	config.Sampling = nil
	zapLog, err := config.Build() // to standard error
	if err != nil {
		panic(err)
	}
	log := zapr.NewLogger(zapLog).WithName("runtimed")
	klog.SetLogger(log)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), log), syscall.SIGTERM, os.Interrupt)
	defer stop()
	opts, err := parse(os.Args[1:], os.Getenv)
	if err == nil {
		err = runtimed.Run(ctx, opts)
	}
	if err != nil {
		log.Error(err, "Ended runtimed")
		os.Exit(1)
	}
}
