package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"

	"kruntimes.io/kruntimes/devcluster/kubelet"
	"kruntimes.io/kruntimes/krt/cli"
)

// newKubelet returns the hidden command that the dev cluster runs its stand-in for the kubelet with.
func newKubelet(f *cli.Factory) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "kubelet", Short: "Stand in for a kubelet (used by krt dev up)", Args: cli.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return runKubelet(cmd.Context(), f, file) },
	}
	cmd.Flags().StringVar(&file, "config", "", "`file` that the dev cluster has written")
	return cmd
}

func runKubelet(ctx context.Context, f *cli.Factory, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return cli.Usagef("reading the configuration: %w", err)
	}
	var config kubelet.Config
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	log := zapr.NewLogger(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.AddSync(f.IO.ErrOut), zapcore.InfoLevel)))
	klog.SetLogger(log)
	// The stand-in must not leave before the Pods' processes have ended, however often it is told to. When the cluster's
	// process is killed, the kernel tells it once for each thread that it handed the stand-in to while it died.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	interrupts := f.Interrupts.Claim()
	go func() {
		select {
		case <-interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return kubelet.Run(logr.NewContext(ctx, log), config)
}
