// Command scheduler places Runs on the Pods of their Runtimes.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/scheduler"
)

func main() {
	options := scheduler.Options{}
	cmd := &cobra.Command{
		Use: "scheduler", Args: cobra.NoArgs, SilenceUsage: true, Short: "Places Runs on the Pods of their Runtimes",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			log := zapr.NewLogger(zap.Must(zap.NewProduction()))
			ctrl.SetLogger(log)
			klog.SetLogger(log)
			if options.Config, err = ctrl.GetConfig(); err != nil {
				return fmt.Errorf("finding the API server: %w", err)
			}
			return scheduler.Run(ctrl.LoggerInto(cmd.Context(), log), options)
		},
	}
	options.AddFlags(cmd.Flags())
	cmd.Flags().AddGoFlagSet(flag.CommandLine) // --kubeconfig
	if err := cmd.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
