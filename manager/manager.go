// Package manager wires the controllers of the enabled groups into one process and runs them until it is told to stop.
package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/controllers/core"
	"kruntimes.io/kruntimes/controllers/workflows"
	"kruntimes.io/kruntimes/controllers/workflows/definitions"
	"kruntimes.io/kruntimes/controllers/workspaces"
	"kruntimes.io/kruntimes/election"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/telemetry/events"
)

// concurrency is how many objects of a kind are worked on at a time.
const concurrency = 8

// Run starts the controllers and blocks until ctx ends or one of them cannot go on. The logger is taken from ctx.
func Run(ctx context.Context, options Options) error {
	if err := options.validate(); err != nil {
		return err
	}
	options.complete()
	configuration, err := readConfiguration(options.ConfigFile)
	if err != nil {
		return err
	}
	recorder, err := newRecorder(options.Config)
	if err != nil {
		return err
	}
	mgr, err := newManager(ctx, options, recorder)
	if err != nil {
		return err
	}
	if err := setUp(ctx, mgr, recorder, options, configuration); err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Starting manager", "groups", options.Groups, "nodeImage", options.NodeImage,
		"defaultRunAsUser", options.DefaultRunAsUser, "leaderElection", options.LeaderElection,
		"jobsWithWorkspace", configuration.JobWorkspaces.Jobs, "jobWorkspaceCleanup", configuration.JobWorkspaces.CleanupPolicy,
		"jobWorkspaceTTL", ptr.Deref(configuration.JobWorkspaces.TTLSecondsAfterUnused, 0), "artifacts", configuration.artifactLimits())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

// newManager makes what controllers and probes are registered with, and what stores their events.
func newManager(ctx context.Context, options Options, recorder *events.Recorder) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, corev1alpha1.AddToScheme,
		workspacesv1alpha1.AddToScheme, workflowsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	serving, err := options.Metrics.Server()
	if err != nil {
		return nil, err
	}
	made := managerOptions(ctx, scheme, options)
	if made.LeaderElectionResourceLockInterface, err = newLock(options, recorder); err != nil {
		return nil, err
	}
	made.Metrics = serving
	if made.WebhookServer, err = options.Admission.server(); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(options.Config, made)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.Add(recorder); err != nil {
		return nil, fmt.Errorf("adding the recorder of events: %w", err)
	}
	return mgr, nil
}

func managerOptions(ctx context.Context, scheme *runtime.Scheme, options Options) ctrl.Options {
	skip := true // Several managers may live in one process: krt dev, tests.
	return ctrl.Options{
		Scheme:      scheme,
		NewCache:    newStoppableCache,
		Logger:      logr.FromContextOrDiscard(ctx),
		BaseContext: func() context.Context { return ctx }, // Ends the caches with the manager; see stoppableCache.
		Cache:       cache.Options{ByObject: cachedObjects(options), DefaultTransform: cache.TransformStripManagedFields()},
		Controller:  config.Controller{MaxConcurrentReconciles: concurrency, SkipNameValidation: &skip},

		HealthProbeBindAddress:        options.HealthAddress,
		LeaderElection:                options.LeaderElection,
		LeaderElectionID:              leaseName, // It names the metrics of the election; see newLock.
		LeaseDuration:                 ptr.To(election.LeaseDuration),
		RenewDeadline:                 ptr.To(election.RenewDeadline),
		RetryPeriod:                   ptr.To(election.RetryPeriod),
		LeaderElectionReleaseOnCancel: true,
	}
}

// cachedObjects says what the cache holds for the enabled groups.
func cachedObjects(options Options) map[client.Object]cache.ByObject {
	byObject := core.CacheByObject()
	if options.enabled(groups.Workspaces) {
		maps.Copy(byObject, workspaces.CacheByObject())
	}
	if options.enabled(groups.Workflows) {
		maps.Copy(byObject, workflows.CacheByObject())
		maps.Copy(byObject, definitions.CacheByObject())
	}
	if options.Policies.Install {
		maps.Copy(byObject, policyCache())
	}
	return byObject
}

// setUp registers the controllers of the enabled groups, what tells of their work, and the probes.
func setUp(ctx context.Context, mgr ctrl.Manager, recorder *events.Recorder, options Options, configuration *Configuration) error {
	if options.Policies.Install {
		if err := addPolicies(ctx, mgr, options.Policies); err != nil {
			return err
		}
	}
	if options.enabled(groups.Core) {
		if err := setUpCore(ctx, mgr, recorder, options, configuration.artifactLimits()); err != nil {
			return fmt.Errorf("setting up group %s: %w", groups.Core, err)
		}
	}
	if options.enabled(groups.Workspaces) {
		if err := setUpWorkspaces(ctx, mgr, recorder); err != nil {
			return fmt.Errorf("setting up group %s: %w", groups.Workspaces, err)
		}
		if err := addAdmission(ctx, mgr, options.Admission); err != nil {
			return fmt.Errorf("setting up group %s: %w", groups.Workspaces, err)
		}
	}
	if options.enabled(groups.Workflows) {
		if err := setUpWorkflows(ctx, mgr, recorder, configuration.jobWorkspaces()); err != nil {
			return fmt.Errorf("setting up group %s: %w", groups.Workflows, err)
		}
		if err := setUpDefinitions(ctx, mgr, recorder); err != nil {
			return fmt.Errorf("setting up group %s: %w", groups.Workflows, err)
		}
		addEarlyWords(ctx, mgr)
	}
	return addProbes(ctx, mgr, slices.Collect(maps.Keys(cachedObjects(options))))
}

func setUpCore(ctx context.Context, mgr ctrl.Manager, recorder *events.Recorder, options Options, artifacts core.ArtifactLimits) error {
	if err := core.IndexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	user, err := options.defaultUser()
	if err != nil {
		return err
	}
	if err := mgr.Add(&core.Observer{Informers: mgr.GetCache(), Recorder: recorder, Clock: clock.RealClock{}}); err != nil {
		return fmt.Errorf("adding what observes Runs and Runtimes: %w", err)
	}
	runtimes := &core.RuntimeReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		NodeImage: options.NodeImage, RuntimedClusterRole: options.RuntimedClusterRole, DefaultUser: user,
		Artifacts: artifacts}
	if options.enabled(groups.Workspaces) {
		runtimes.BoundWorkspaces = workspaces.CountBound(mgr.GetClient())
	}
	if err := runtimes.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Runtime controller: %w", err)
	}
	runs := &core.RunReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := runs.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Run lifecycle controller: %w", err)
	}
	namespaces := &core.NamespaceReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := namespaces.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the namespace controller: %w", err)
	}
	return nil
}

func setUpWorkspaces(ctx context.Context, mgr ctrl.Manager, recorder *events.Recorder) error {
	if err := workspaces.IndexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(&workspaces.Observer{Informers: mgr.GetCache(), Recorder: recorder, Clock: clock.RealClock{}}); err != nil {
		return fmt.Errorf("adding what observes PersistentWorkspaces: %w", err)
	}
	bindings := &workspaces.PersistentWorkspaceReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := bindings.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the PersistentWorkspace controller: %w", err)
	}
	return nil
}

func setUpWorkflows(ctx context.Context, mgr ctrl.Manager, recorder *events.Recorder, jobs *workflows.JobWorkspaces) error {
	if err := workflows.IndexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(&workflows.Observer{Informers: mgr.GetCache(), Recorder: recorder, Clock: clock.RealClock{}}); err != nil {
		return fmt.Errorf("adding what observes WorkflowRuns: %w", err)
	}
	runs := &workflows.WorkflowRunReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Workspaces: jobs, Recorder: recorder}
	if err := runs.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the WorkflowRun controller: %w", err)
	}
	return nil
}
