package install

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/scheduler"
)

// run starts manager and scheduler as their Deployments say, until the test ends. They must not log an error until then.
func (s *site) run(t *testing.T, manifests []byte) {
	t.Helper()
	all := deployments(t, manifests)
	managing := s.ManagerOptions(t)
	address, certificates := managing.Admission.Address, managing.Admission.CertDir
	parse(t, all[config.ManagerServiceAccount], managing.AddFlags)
	// Pods have these ports and this directory for themselves.
	managing.HealthAddress, managing.Metrics.Address = "0", "0"
	managing.Admission.Address, managing.Admission.CertDir = address, certificates
	scheduling := scheduler.Options{Config: s.ServiceAccount(t, config.Namespace, config.SchedulerServiceAccount)}
	parse(t, all[config.SchedulerServiceAccount], scheduling.AddFlags)
	scheduling.HealthAddress, scheduling.Metrics.Address = "0", "0"
	s.reach(t, address)
	for name, run := range map[string]func(context.Context) error{
		"manager":   func(ctx context.Context) error { return manager.Run(ctx, managing) },
		"scheduler": func(ctx context.Context) error { return scheduler.Run(ctx, scheduling) },
	} {
		log := &errorLog{}
		// The context of the test ends before its cleanup, and what ends logs errors.
		ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), logr.New(log)))
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		t.Cleanup(func() {
			for _, text := range log.stop() {
				t.Errorf("the %s logged %s", name, text)
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the %s ended with %v", name, err)
			}
		})
	}
}

// parse hands the arguments of a Deployment's container on, as the kubelet would.
func parse(t *testing.T, d *appsv1.Deployment, addFlags func(*pflag.FlagSet)) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	env := map[string]string{"POD_NAMESPACE": d.Namespace, "POD_SERVICE_ACCOUNT": d.Spec.Template.Spec.ServiceAccountName}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			env[e.Name] = e.Value
		}
	}
	var args []string
	for _, arg := range c.Args {
		args = append(args, os.Expand(strings.NewReplacer("$(", "${", ")", "}").Replace(arg), func(name string) string { return env[name] }))
	}
	flags := pflag.NewFlagSet(d.Name, pflag.ContinueOnError)
	addFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatalf("%s: parsing %v: %v", d.Name, args, err)
	}
}

// errorLog keeps the errors that are logged until it is stopped.
type errorLog struct {
	mu      sync.Mutex
	stopped bool
	errors  []string
}

func (l *errorLog) Init(logr.RuntimeInfo)          {}
func (l *errorLog) Enabled(int) bool               { return false }
func (l *errorLog) Info(int, string, ...any)       {}
func (l *errorLog) WithValues(...any) logr.LogSink { return l }
func (l *errorLog) WithName(string) logr.LogSink   { return l }
func (l *errorLog) Error(err error, message string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.errors = append(l.errors, fmt.Sprintf("%s: %v", message, err))
	}
}

func (l *errorLog) stop() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	return l.errors
}
