package scheduler

import (
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Options are what Run needs.
type Options struct {
	// Config reaches the API server. Its rate limit is taken off: the API server's own fairness holds instead. Required.
	Config *rest.Config
	// LeaderElection lets only one of several schedulers work. Default: off.
	LeaderElection bool
	// LeaderElectionNamespace is where the Lease lives. Required with LeaderElection.
	LeaderElectionNamespace string
	// MetricsAddress is reserved: no metrics are served in this version.
	MetricsAddress string
	// HealthAddress serves /healthz and /readyz. Empty or "0": off.
	HealthAddress string
	// Clock is read for every time and timer. Default: the real one.
	Clock clock.WithTicker
}

func (o Options) validate() error {
	var errs []error
	if o.Config == nil {
		errs = append(errs, errors.New("config is required"))
	}
	if o.LeaderElection && o.LeaderElectionNamespace == "" {
		errs = append(errs, errors.New("leader election needs a namespace for its Lease"))
	}
	return errors.Join(errs...)
}

// complete fills the defaults in.
func (o Options) complete() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS = -1
	o.Config.RateLimiter = nil
	return o
}
