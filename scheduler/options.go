package scheduler

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/telemetry/endpoint"
)

// Options are what Run needs.
type Options struct {
	// Config reaches the API server. Its rate limit is taken off: the API server's own fairness holds instead. Required.
	Config *rest.Config
	// Groups are the enabled API groups: core, workspaces, workflows. Only workspaces makes a difference: without it,
	// PersistentWorkspaces are not watched. Default: all.
	Groups []string
	// LeaderElection lets only one of several schedulers work. Default: off.
	LeaderElection bool
	// LeaderElectionNamespace is where the Lease lives. Required with LeaderElection.
	LeaderElectionNamespace string
	// Metrics says where and how metrics are served. Default: nowhere.
	Metrics endpoint.Options
	// HealthAddress serves /healthz and /readyz. Empty or "0": off.
	HealthAddress string
	// Clock is read for every time and timer. Default: the real one.
	Clock clock.WithTicker
}

// AddFlags makes the options settable on a command line, with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Groups, "groups", groups.All(), "Enabled API `groups`: core, workspaces, workflows")
	flags.BoolVar(&o.LeaderElection, "leader-elect", false, "Let one of several replicas work at a time")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "`Namespace` of the Lease")
	o.Metrics.AddFlags(flags)
	flags.StringVar(&o.HealthAddress, "health-address", ":8081", "`Address` to serve probes on; 0 for nowhere")
}

func (o *Options) validate() error {
	errs := []error{groups.Validate(o.Groups)}
	if o.Config == nil {
		errs = append(errs, errors.New("config is required"))
	}
	if o.LeaderElection && o.LeaderElectionNamespace == "" {
		errs = append(errs, errors.New("leader election needs a namespace for its Lease"))
	}
	return errors.Join(append(errs, o.Metrics.Validate())...)
}

// complete fills the defaults in.
func (o *Options) complete() {
	if len(o.Groups) == 0 {
		o.Groups = groups.All()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS = -1
	o.Config.RateLimiter = nil
}

// enabled tells whether a group is.
func (o *Options) enabled(group string) bool { return slices.Contains(o.Groups, group) }
