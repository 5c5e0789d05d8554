// Command scheduler places Runs on the Pods of their Runtimes.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/scheduler"
)

func main() {
	options := scheduler.Options{}
	cmd := &cobra.Command{
		Use: "scheduler", Args: cobra.NoArgs, SilenceUsage: true, Short: "Places Runs on the Pods of their Runtimes",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			log, err := zap.NewProduction()
			if err != nil {
				return fmt.Errorf("making the logger: %w", err)
			}
			ctrl.SetLogger(zapr.NewLogger(log))
			if options.Config, err = ctrl.GetConfig(); err != nil {
				return fmt.Errorf("finding the API server: %w", err)
			}
			return scheduler.Run(ctrl.LoggerInto(cmd.Context(), ctrl.Log), options)
		},
	}
	cmd.Flags().BoolVar(&options.LeaderElection, "leader-elect", false, "Work only while holding the Lease")
	cmd.Flags().StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "", "`namespace` of the Lease")
	cmd.Flags().StringVar(&options.HealthAddress, "health-address", ":8081", "`address` of /healthz and /readyz; 0 is off")
	cmd.Flags().AddGoFlagSet(flag.CommandLine) // --kubeconfig
	if err := cmd.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
