package devcluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/devcluster/controlplane"
	"kruntimes.io/kruntimes/groups"
)

// Options says what a dev cluster consists of. The zero value of every field but Environ makes a whole cluster in
// the default state directory, with the programs of kruntimes taken from beside the running executable.
type Options struct {
	// StateDir holds everything that the cluster writes. Default: DefaultStateDir. One cluster at a time per directory.
	StateDir string
	// Port is that of the API server. Default: 0, any free one.
	Port int
	// SeparateProcesses runs manager and scheduler as child processes, so that a test can kill one of them.
	SeparateProcesses bool
	// WithoutProduct leaves manager and scheduler out: a cluster that knows the kinds of kruntimes but does nothing
	// with their objects.
	WithoutProduct bool
	// Groups are the enabled API groups; kinds of others are not installed. Default: all.
	Groups []string
	// AuditLog is a file in which the API server notes every request, one JSON document per line, without their content: who
	// asked for what, and what came of it. Default: none.
	AuditLog string
	// ManagerConfigFile holds the manager's configuration. Default: none, and so the manager's own defaults.
	ManagerConfigFile string
	// Binaries are the programs that the cluster runs.
	Binaries Binaries
	// OwnsProcess says that the calling process is there for this cluster and starts no other children. The cluster
	// then also ends what a crashed part has left behind, and sends the logs of Kubernetes' libraries to a file.
	OwnsProcess bool
	// Progress receives lines for people during the start. Default: nothing is written.
	Progress io.Writer
	// Environ is the environment in which variables are looked up, as os.Environ returns it. Required.
	Environ []string
	// Clock tells the time. Default: the real one.
	Clock clock.WithTicker
}

// Binaries are the programs that a cluster runs. An empty path means: beside the running executable.
type Binaries struct {
	// ControlPlane is the directory of etcd, kube-apiserver and kube-controller-manager. Default: controlplane.Ensure.
	ControlPlane string
	// Kubelet is the command line that runs the kubelet stand-in; a --config flag is added to it.
	// Default: krt dev kubelet.
	Kubelet []string
	// Runtimed and RuntimeServer run in the Pods of Runtimes.
	Runtimed, RuntimeServer string
	// Manager and Scheduler are needed only with SeparateProcesses.
	Manager, Scheduler string
}

// NodeName is the name of the cluster's only Node.
const NodeName = "dev"

// DefaultStateDir returns the state directory that the XDG base directory specification asks for.
func DefaultStateDir(environ []string) (string, error) {
	if state := lookupEnv(environ, "XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "kruntimes", "dev"), nil
	}
	home := lookupEnv(environ, "HOME")
	if home == "" {
		return "", errors.New("finding a directory for state: neither XDG_STATE_HOME nor HOME is set")
	}
	return filepath.Join(home, ".local", "state", "kruntimes", "dev"), nil
}

func (o *Options) complete() error {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Environ == nil {
		return errors.New("no environment to look variables up in")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if len(o.Groups) == 0 {
		o.Groups = groups.All()
	}
	if o.StateDir == "" {
		dir, err := DefaultStateDir(o.Environ)
		if err != nil {
			return err
		}
		o.StateDir = dir
	}
	absolute, err := filepath.Abs(o.StateDir)
	if err != nil {
		return fmt.Errorf("resolving the state directory: %w", err)
	}
	o.StateDir = absolute
	if o.AuditLog != "" {
		if o.AuditLog, err = filepath.Abs(o.AuditLog); err != nil {
			return fmt.Errorf("resolving the file of the audit log: %w", err)
		}
	}
	if o.ManagerConfigFile != "" {
		if o.ManagerConfigFile, err = filepath.Abs(o.ManagerConfigFile); err != nil {
			return fmt.Errorf("resolving the manager's configuration file: %w", err)
		}
		if _, err := os.Stat(o.ManagerConfigFile); err != nil {
			return fmt.Errorf("looking for the manager's configuration: %w", err)
		}
	}
	return o.Binaries.complete(o)
}

func (b *Binaries) complete(o *Options) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the running executable: %w", err)
	}
	var errs []error
	beside := func(path *string, name string) {
		if *path == "" {
			*path = filepath.Join(filepath.Dir(executable), name)
		}
		absolute, err := filepath.Abs(*path) // Pods have working directories of their own
		*path, errs = absolute, append(errs, err)
	}
	if len(b.Kubelet) == 0 {
		b.Kubelet = []string{"", "dev", "kubelet"}
	}
	b.Kubelet = slices.Clone(b.Kubelet)
	beside(&b.Kubelet[0], "krt")
	needed := map[string]string{"krt": b.Kubelet[0]}
	if !o.WithoutProduct {
		beside(&b.Runtimed, "runtimed")
		beside(&b.RuntimeServer, "runtime-server")
		needed["runtimed"], needed["runtime-server"] = b.Runtimed, b.RuntimeServer
	}
	if o.SeparateProcesses && !o.WithoutProduct {
		beside(&b.Manager, "manager")
		beside(&b.Scheduler, "scheduler")
		needed["manager"], needed["scheduler"] = b.Manager, b.Scheduler
	}
	return errors.Join(append(errs, checkExecutables(needed))...)
}

// checkExecutables names all programs that are missing, so that a person has to look only once.
func checkExecutables(pathsByName map[string]string) error {
	var errs []error
	for _, name := range sortedKeys(pathsByName) {
		path := pathsByName[name]
		info, err := os.Stat(path)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s is missing: %w", name, err))
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			errs = append(errs, fmt.Errorf("%s at %s is not executable", name, path))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) controlPlaneOptions() controlplane.EnsureOptions {
	return controlplane.EnsureOptions{Progress: o.Progress, Environ: o.Environ, Clock: o.Clock}
}

// lookupEnv returns the last value of name, as a process started with environ would see it.
func lookupEnv(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if v, found := strings.CutPrefix(entry, name+"="); found {
			value = v
		}
	}
	return value
}
