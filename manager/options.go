package manager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/telemetry/endpoint"
)

const (
	// defaultClusterRole is config.RuntimedClusterRole. A test compares them: importing config would bring kustomize along
	// and make the program nearly twice as large.
	defaultClusterRole = "kruntimes-runtimed"
	// runAsNone is the value of DefaultRunAsUser that leaves users and groups to the cluster, runAsDefault its default.
	runAsNone    = "none"
	runAsDefault = "65532"
)

// Options say which controllers run, and how. The zero value of every field but Config and NodeImage means its default.
type Options struct {
	// Config reaches the API server. Its rate limit is taken off: the API server's own fairness holds instead. Required.
	Config *rest.Config
	// Groups are the enabled API groups. Default: all.
	Groups []string
	// NodeImage holds runtimed and the runtime server; new and changed Runtimes get it. Required.
	NodeImage string
	// RuntimedClusterRole is bound to the Pods of every Runtime in their namespace. Default: kruntimes-runtimed.
	// Bindings to an earlier one stay until their Runtime is deleted.
	RuntimedClusterRole string
	// DefaultRunAsUser is the user and group of Pods whose template names none: a number other than 0, or "none" where
	// the cluster assigns users. Default: 65532.
	DefaultRunAsUser string
	// LeaderElection lets one of several replicas work at a time.
	LeaderElection bool
	// LeaderElectionNamespace holds the Lease. Default: the namespace of the Pod.
	LeaderElectionNamespace string
	// Metrics says where and how metrics are served. Default: nowhere.
	Metrics endpoint.Options
	// HealthAddress is where probes are served. Empty or "0": nowhere.
	HealthAddress string
	// ConfigFile holds the Configuration. Empty: its defaults.
	ConfigFile string
	// Admission says where and how the API server is answered. It counts only with group workspaces.
	Admission AdmissionOptions
	// Policies says whether the manager looks after the admission policies.
	Policies PolicyOptions
}

// AddFlags makes the options settable on a command line, with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Groups, "groups", groups.All(), "Enabled API `groups`: core, workspaces, workflows")
	flags.StringVar(&o.NodeImage, "node-image", "", "`Image` with runtimed and the runtime server for new and changed Runtimes")
	flags.StringVar(&o.RuntimedClusterRole, "runtimed-cluster-role", defaultClusterRole, "`ClusterRole` that is bound to the Pods of a Runtime")
	flags.StringVar(&o.DefaultRunAsUser, "default-run-as-user", runAsDefault, "`User` and group of Pods whose template names none, or none where the cluster assigns them")
	flags.BoolVar(&o.LeaderElection, "leader-elect", false, "Let one of several replicas work at a time")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "`Namespace` of the Lease (default: that of the Pod)")
	o.Metrics.AddFlags(flags)
	flags.StringVar(&o.HealthAddress, "health-address", ":8081", "`Address` to serve probes on; 0 for nowhere")
	flags.StringVar(&o.ConfigFile, "config", "", "`File` with a ManagerConfiguration of config.kruntimes.io/v1alpha1 (default: none)")
	o.Admission.AddFlags(flags)
	o.Policies.AddFlags(flags)
}

// validate reports all that is wrong at once.
func (o *Options) validate() error {
	errs := []error{groups.Validate(o.Groups)}
	if o.Config == nil {
		errs = append(errs, errors.New("no configuration to reach the API server with"))
	}
	if o.NodeImage == "" {
		errs = append(errs, errors.New("--node-image is required"))
	}
	if o.enabled(groups.Workspaces) {
		errs = append(errs, o.Admission.validate(o.enabled(groups.Workflows)))
	}
	errs = append(errs, o.Policies.validate(o.Groups))
	_, err := o.defaultUser()
	return errors.Join(append(errs, err, o.Metrics.Validate())...)
}

// complete fills the defaults in.
func (o *Options) complete() {
	if len(o.Groups) == 0 {
		o.Groups = groups.All()
	}
	o.RuntimedClusterRole = cmp.Or(o.RuntimedClusterRole, defaultClusterRole)
	o.DefaultRunAsUser = cmp.Or(o.DefaultRunAsUser, runAsDefault)
	o.HealthAddress = cmp.Or(o.HealthAddress, endpoint.Off)
	o.Admission.complete()
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS = -1
	o.Config.RateLimiter = nil
	o.Config.UserAgent = cmp.Or(o.Config.UserAgent, leaseName)
}

// enabled tells whether a group's controllers run.
func (o *Options) enabled(group string) bool {
	return len(o.Groups) == 0 && slices.Contains(groups.All(), group) || slices.Contains(o.Groups, group)
}

// defaultUser is DefaultRunAsUser as a number; nil for "none".
func (o *Options) defaultUser() (*int64, error) {
	if o.DefaultRunAsUser == runAsNone {
		return nil, nil
	}
	user, err := strconv.ParseInt(cmp.Or(o.DefaultRunAsUser, runAsDefault), 10, 64)
	if err != nil || user <= 0 {
		return nil, fmt.Errorf("--default-run-as-user: %q is neither none nor the number of a user other than root", o.DefaultRunAsUser)
	}
	return &user, nil
}
