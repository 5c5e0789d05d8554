package devcluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/process"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/scheduler"
)

const (
	// nodeImage is what Runtimes get as the image of runtimed. It is never pulled: the stand-in knows its programs.
	nodeImage = "kruntimes.io/node:dev"
	// tokenLife is how long a token of manager or scheduler is asked to live.
	tokenLife = 24 * time.Hour
	// tokenRetry is how long to wait after a token could not be renewed.
	tokenRetry = time.Minute
	// off is an address that is not listened on: nobody probes these processes here, their end is noticed at once.
	off = "0"
)

// component is one of the two programs of kruntimes' own control plane.
type component struct {
	part, account string
	// inside runs it in this process, binary and args as a process of its own.
	inside func(context.Context, *rest.Config) error
	binary string
	args   []string
}

func (c *Cluster) components() []component {
	groups := c.options.Groups
	return []component{
		{
			part: PartManager, account: config.ManagerServiceAccount, binary: c.options.Binaries.Manager,
			args: append([]string{"--groups=" + strings.Join(groups, ","), "--node-image=" + nodeImage,
				"--runtimed-cluster-role=" + config.RuntimedClusterRole, "--metrics-address=" + off, "--health-address=" + off,
				"--config=" + c.options.ManagerConfigFile}, c.admissionArguments()...),
			inside: func(ctx context.Context, api *rest.Config) error {
				return manager.Run(ctx, manager.Options{Config: api, Groups: groups, NodeImage: nodeImage,
					RuntimedClusterRole: config.RuntimedClusterRole, HealthAddress: off, Admission: c.admissionOptions(),
					ConfigFile: c.options.ManagerConfigFile})
			},
		},
		{
			part: PartScheduler, account: config.SchedulerServiceAccount, binary: c.options.Binaries.Scheduler,
			args: []string{"--groups=" + strings.Join(groups, ","), "--metrics-address=" + off, "--health-address=" + off},
			inside: func(ctx context.Context, api *rest.Config) error {
				return scheduler.Run(ctx, scheduler.Options{Config: api, Groups: groups, HealthAddress: off})
			},
		},
	}
}

// startProduct starts manager and scheduler under the identities that they have in a real cluster, so that roles and
// admission policies mean the same here.
func (c *Cluster) startProduct(ctx context.Context) error {
	if c.options.WithoutProduct {
		return nil
	}
	for _, component := range c.components() {
		if err := c.startComponent(ctx, component); err != nil {
			return fmt.Errorf("%s: %w", component.part, err)
		}
	}
	return c.waitForAdmission(ctx)
}

func (c *Cluster) startComponent(ctx context.Context, component component) error {
	if err := c.maintainToken(ctx, component); err != nil {
		return err
	}
	if c.options.SeparateProcesses {
		return c.spawnComponent(component)
	}
	log, file, err := fileLogger(c.dirs.log(component.part))
	if err != nil {
		return err
	}
	api := &rest.Config{
		Host: c.config.Host, BearerTokenFile: c.dirs.token(component.part), QPS: -1, UserAgent: component.part,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.creds.authority.CertPEM},
	}
	return c.add(c.inside(logr.NewContext(ctx, log), component.part, func(ctx context.Context) error {
		defer file.Close()
		return component.inside(ctx, api)
	}))
}

// Crash kills manager or scheduler without warning and starts it again, as the node of a real cluster would. It needs
// SeparateProcesses. The new process lives as long as the cluster, whose end waits for Crash and then forbids it.
func (c *Cluster) Crash(name string) error {
	c.replacing.Lock()
	defer c.replacing.Unlock()
	if c.ctx.Err() != nil {
		return fmt.Errorf("crashing %s: %w", name, context.Cause(c.ctx))
	}
	for _, component := range c.components() {
		if component.part != name || !c.options.SeparateProcesses {
			continue
		}
		p := c.remove(name)
		if p == nil {
			return fmt.Errorf("%s is not running", name)
		}
		p.stop()
		return c.spawnComponent(component)
	}
	return fmt.Errorf("%s is not a process that can be started again", name)
}

func (c *Cluster) spawnComponent(component component) error {
	kubeconfig := c.dirs.kubeconfigOf(component.part)
	user := &clientcmdapi.AuthInfo{TokenFile: c.dirs.token(component.part)}
	if err := c.creds.writeKubeconfig(kubeconfig, c.config.Host, user); err != nil {
		return err
	}
	p, err := c.spawn(component.part, process.Command{
		Path: component.binary, Args: component.args, LogFile: c.dirs.log(component.part),
		Env: append(c.childEnviron(), "KUBECONFIG="+kubeconfig),
	})
	if err != nil {
		return err
	}
	return c.add(p)
}

// maintainToken writes a token of the component's ServiceAccount to a file and renews it until ctx ends.
func (c *Cluster) maintainToken(ctx context.Context, component component) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	wait, err := c.renewToken(ctx, client, component)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.options.Clock.After(wait):
			}
			if wait, err = c.renewToken(ctx, client, component); err != nil && ctx.Err() == nil {
				c.log.Error(err, "Could not renew token", "part", component.part)
			}
		}
	}()
	return nil
}

// renewToken writes a new token and returns when to do so again: at half of its life, or soon after a failure, so that a
// component never has none that is valid.
func (c *Cluster) renewToken(ctx context.Context, client kubernetes.Interface, component component) (wait time.Duration, err error) {
	seconds := int64(tokenLife / time.Second)
	issued, err := client.CoreV1().ServiceAccounts(config.Namespace).CreateToken(ctx, component.account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return tokenRetry, fmt.Errorf("asking for a token of ServiceAccount %s: %w", component.account, err)
	}
	if err := writeFile(c.dirs.token(component.part), []byte(issued.Status.Token)); err != nil {
		return tokenRetry, fmt.Errorf("keeping the token of ServiceAccount %s: %w", component.account, err)
	}
	// The API server may have given it a shorter life than it was asked for.
	if half := issued.Status.ExpirationTimestamp.Sub(c.options.Clock.Now()) / 2; half > 0 {
		return half, nil
	}
	return tokenRetry, nil
}

// fileLogger logs to a file as the component would to standard error. What is logged after the file is closed is lost.
func fileLogger(path string) (logr.Logger, io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return logr.Logger{}, nil, fmt.Errorf("opening the log: %w", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(file), zapcore.InfoLevel)
	return zapr.NewLogger(zap.New(core, zap.ErrorOutput(zapcore.AddSync(io.Discard)))), file, nil
}

// divertLogs sends what the libraries of Kubernetes log without being asked to a file, and what the cluster itself logs.
// The file stays open: the libraries keep the logger for as long as the process lives, which lives for this cluster.
func (c *Cluster) divertLogs() error {
	log, _, err := fileLogger(c.dirs.log("libraries"))
	if err != nil {
		return err
	}
	c.log = log
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return nil
}
