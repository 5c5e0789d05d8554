// Command scheduler places Runs on the Pods of their Runtimes.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/version/logging"
)

func main() {
	var verbosity logging.Verbosity
	verbosity.AddFlag(flag.CommandLine)
	options := scheduler.Options{}
	cmd := &cobra.Command{
		Use: "scheduler", Args: cobra.NoArgs, SilenceUsage: true, Short: "Places Runs on the Pods of their Runtimes",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			log := logging.New(os.Stderr, verbosity)
			ctrl.SetLogger(log)
			klog.SetLogger(log)
			if options.Config, err = ctrl.GetConfig(); err != nil {
				return fmt.Errorf("finding the API server: %w", err)
			}
			return scheduler.Run(ctrl.LoggerInto(cmd.Context(), log), options)
		},
	}
	options.AddFlags(cmd.Flags())
	cmd.Flags().AddGoFlagSet(flag.CommandLine) // --kubeconfig and --v
	if err := cmd.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
