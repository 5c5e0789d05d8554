package runtimed

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts/stores"
	"kruntimes.io/kruntimes/runtimed/executor"
)

// Options configure runtimed.
type Options struct {
	// Pod is the Pod in which runtimed runs. Required.
	Pod executor.Pod
	// Config says how the API server is reached. Required.
	Config *rest.Config
	// Socket is the path of the unix socket that the runtime server dials. Required.
	Socket string
	// Scratch is the volume for the directories of executions, under the path that the runtime server sees it at. Required.
	Scratch string
	// State is a directory that only runtimed sees and that outlives its restarts. Required.
	State string
	// Workspace is where the workspace volume is mounted, under the path that the runtime server sees it at. Required.
	Workspace string
	// Interpreter is the command that runs an inline script; the script's path is appended. Required.
	Interpreter []string
	// HealthAddress is where /readyz is served. Empty or "0": nowhere.
	HealthAddress string
	// BootID identifies the present boot of the node. Default: what the kernel says.
	BootID string
	// Stdout receives the log records of executions. Required.
	Stdout io.Writer
	// Clock measures all delays. Default: the real clock.
	Clock clock.WithDelayedExecution
	// Timing holds the delays of a Run's way. Zero fields get their default.
	Timing executor.Timing
	// FetchEnv is the environment of processes that fetch git sources: words "name=value".
	FetchEnv []string
	// Shutdown holds the delays of the Pod's end. Zero fields get their default.
	Shutdown ShutdownTiming
	// Artifacts says where artifacts are kept. Without a store Runs can neither make nor take any.
	Artifacts ArtifactOptions
}

// ArtifactOptions say where artifacts are kept, and how many. Zero fields get their default, where they have one.
type ArtifactOptions struct {
	// Store is the artifact store; nil when there is none.
	Store *stores.Config
	// OpenBucket opens stores in buckets. Nil: there is no driver for them.
	OpenBucket stores.Opener
	// MaxBytes bounds each artifact, packed and unpacked. Default: 10 GiB. Unit: bytes.
	MaxBytes int64
	// MaxCount bounds the artifacts of a Run. Default and maximum: 32.
	MaxCount int
	// SweepInterval is the mean time between two looks for artifacts of Runs that are gone. Default: 1 h.
	SweepInterval time.Duration
	// SweepGrace is how old artifacts must be to be removed. Default: 15 min.
	SweepGrace time.Duration
	// Patience bounds how long a store that fails is tried again. One that stands still is given up after twice that time.
	// Default: 2 min.
	Patience time.Duration
	// Recheck is the mean time between two looks at a store that cannot be used. Default: 5 min.
	Recheck time.Duration
}

func (o ArtifactOptions) withDefaults() ArtifactOptions {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&o.SweepInterval, time.Hour)
	set(&o.SweepGrace, 15*time.Minute)
	set(&o.Patience, 2*time.Minute)
	set(&o.Recheck, 5*time.Minute)
	if o.MaxBytes == 0 {
		o.MaxBytes = 10 << 30
	}
	if o.MaxCount == 0 {
		o.MaxCount = corev1alpha1.MaxArtifacts
	}
	return o
}

// validate returns all that is wrong with o.
func (o *ArtifactOptions) validate() error {
	var errs []error
	if o.MaxBytes < 0 {
		errs = append(errs, errors.New("--artifact-max-bytes must not be negative"))
	}
	if o.MaxCount < 0 || o.MaxCount > corev1alpha1.MaxArtifacts {
		errs = append(errs, fmt.Errorf("--artifact-max-count must be between 1 and %d", corev1alpha1.MaxArtifacts))
	}
	positive := func(d time.Duration, flag string) {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative", flag))
		}
	}
	positive(o.SweepInterval, "--artifact-sweep-interval")
	positive(o.SweepGrace, "--artifact-sweep-grace")
	positive(o.Patience, "--artifact-patience")
	positive(o.Recheck, "--artifact-recheck")
	return errors.Join(errs...)
}

// ShutdownTiming holds the delays of the Pod's end. Zero fields get their default.
type ShutdownTiming struct {
	// Linger is how long runtimed stays although it has no Run, for those that are assigned before the scheduler has seen
	// that the Pod is being deleted. Default: 1 s.
	Linger time.Duration
	// PodInterval is how often the Pod is read, whose grace period may be made shorter, and its namespace. Default: 10 s.
	PodInterval time.Duration
	// UnknownGrace is the grace period that is assumed as long as the Pod cannot be read. Default: 600 s.
	UnknownGrace time.Duration
}

func (t ShutdownTiming) withDefaults() ShutdownTiming {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&t.Linger, time.Second)
	set(&t.PodInterval, 10*time.Second)
	set(&t.UnknownGrace, corev1alpha1.DefaultGrace)
	return t
}

// validate returns all that is wrong with o.
func (o *Options) validate() error {
	var errs []error
	required := func(ok bool, what string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s is required", what))
		}
	}
	required(o.Pod.Name != "", "POD_NAME")
	required(o.Pod.Namespace != "", "POD_NAMESPACE")
	required(o.Pod.UID != "", "POD_UID")
	required(o.Config != nil, "the API server's address")
	required(o.Socket != "", "--socket")
	required(o.Scratch != "", "--scratch")
	required(o.State != "", "--state")
	required(o.Workspace != "", "--workspace")
	required(len(o.Interpreter) > 0 && o.Interpreter[0] != "", "--interpreter")
	required(o.Stdout != nil, "an output for log records")
	return errors.Join(append(errs, o.Artifacts.validate())...)
}

// complete fills in what has a default.
func (o *Options) complete() error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Shutdown, o.Artifacts = o.Shutdown.withDefaults(), o.Artifacts.withDefaults()
	if o.BootID == "" {
		id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return fmt.Errorf("reading the boot id of the node: %w", err)
		}
		o.BootID = strings.TrimSpace(string(id))
	}
	return nil
}

// InClusterConfig says how a Pod reaches its API server: host and port as the kubelet puts them into the environment,
// token and CA certificate in tokenDir, where they are read again when they are renewed.
func InClusterConfig(host, port, tokenDir string) (*rest.Config, error) {
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are required")
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(tokenDir, "ca.crt")},
		BearerTokenFile: filepath.Join(tokenDir, "token"),
	}, nil
}
