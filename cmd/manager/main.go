// Command manager runs the controllers of kruntimes.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/version/logging"
)

func main() {
	var verbosity logging.Verbosity
	verbosity.AddFlag(flag.CommandLine)
	options := manager.Options{}
	cmd := &cobra.Command{
		Use: "manager", Args: cobra.NoArgs, SilenceUsage: true, Short: "Runs the controllers of kruntimes",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			log := logging.New(os.Stderr, verbosity)
			ctrl.SetLogger(log)
			klog.SetLogger(log)
			if options.Config, err = ctrl.GetConfig(); err != nil {
				return fmt.Errorf("finding the API server: %w", err)
			}
			return manager.Run(ctrl.LoggerInto(cmd.Context(), log), options)
		},
	}
	options.AddFlags(cmd.Flags())
	cmd.Flags().AddGoFlagSet(flag.CommandLine) // --kubeconfig and --v
	if err := cmd.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
