package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/devcluster/controlplane"
	"kruntimes.io/kruntimes/devcluster/process"
)

const (
	// pollInterval is how often the start looks whether a part answers.
	pollInterval = 20 * time.Millisecond
	// probeTimeout bounds one such look.
	probeTimeout = 2 * time.Second
	// etcdTimeout and apiServerTimeout are generous: on a loaded machine the start takes several times as long.
	etcdTimeout      = 60 * time.Second
	apiServerTimeout = 3 * time.Minute
	nodeTimeout      = 60 * time.Second
	// portAttempts is how often a free port is looked for: between finding and using one, somebody else may take it.
	portAttempts = 5
)

func (c *Cluster) binary(b controlplane.Binary) string {
	return filepath.Join(c.options.Binaries.ControlPlane, string(b))
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	p, err := c.spawn(PartEtcd, c.dirs.etcdCommand(c.binary(controlplane.Etcd)))
	if err != nil {
		return err
	}
	p.Address = "unix://" + c.dirs.etcdSocket()
	if err := c.add(p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, etcdTimeout, fmt.Errorf("etcd does not listen after %s", etcdTimeout))
	defer cancel()
	return c.poll(ctx, pollInterval, func() (bool, error) {
		connection, err := net.DialTimeout("unix", c.dirs.etcdSocket(), probeTimeout)
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
}

// errPortTaken says that the API server could not listen.
var errPortTaken = errors.New("the port is taken by another program")

// startAPIServer tries another port when somebody was faster in taking the one that was free a moment ago.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := choosePort(c.options.Port)
		if err != nil {
			return err
		}
		err = c.tryAPIServer(ctx, port)
		if !errors.Is(err, errPortTaken) {
			return err
		}
		if c.options.Port != 0 || attempt == portAttempts {
			return fmt.Errorf("listening on port %d: %w", port, err)
		}
	}
}

// choosePort returns wanted if it is free, or any free port when wanted is 0.
func choosePort(wanted int) (int, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, wanted))
	if err != nil && wanted != 0 {
		return 0, fmt.Errorf("port %d cannot be used, choose another one: %w", wanted, err)
	}
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return port, nil
}

func (c *Cluster) tryAPIServer(ctx context.Context, port int) error {
	command := c.dirs.apiServerCommand(c.binary(controlplane.APIServer), port)
	audit, err := c.auditArguments()
	if err != nil {
		return err
	}
	command.Args = append(command.Args, audit...)
	p, err := c.spawn(PartAPIServer, command)
	if err != nil {
		return err
	}
	config := &rest.Config{
		Host: fmt.Sprintf("https://%s:%d", loopback, port),
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.creds.authority.CertPEM, CertData: c.creds.admin.Cert, KeyData: c.creds.admin.Key,
		},
	}
	if err := c.waitForAPIServer(ctx, config, p); err != nil {
		p.stop()
		if strings.Contains(process.LogTail(command.LogFile, 50), "address already in use") {
			return errPortTaken
		}
		return err
	}
	p.Address = config.Host
	c.mu.Lock()
	c.config = config
	c.mu.Unlock()
	if err := c.creds.writeKubeconfig(c.dirs.kubeconfig(), config.Host, certificateUser(c.creds.admin)); err != nil {
		p.stop() // The end of the cluster ends only what is a part of it.
		return err
	}
	return c.add(p)
}

// auditPolicy notes who asked for what, once the answer is known; of requests that take long, at their beginning as well.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}`

// auditArguments let the API server note requests, where that is wanted.
func (c *Cluster) auditArguments() ([]string, error) {
	if c.options.AuditLog == "" {
		return nil, nil
	}
	if err := writeFile(c.dirs.auditPolicy(), []byte(auditPolicy)); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	return []string{"--audit-policy-file=" + c.dirs.auditPolicy(), "--audit-log-path=" + c.options.AuditLog, "--audit-log-mode=blocking"}, nil
}

func (c *Cluster) waitForAPIServer(ctx context.Context, config *rest.Config, p *part) error {
	config = rest.CopyConfig(config)
	config.Timeout = probeTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, apiServerTimeout,
		fmt.Errorf("kube-apiserver is not ready after %s; its log is %s", apiServerTimeout, p.Log))
	defer cancel()
	return c.poll(ctx, pollInterval, func() (bool, error) {
		select {
		case <-p.done:
			return false, &PartError{Part: p.Name, Err: p.err()}
		default:
		}
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
}

func (c *Cluster) startControllerManager(context.Context) error {
	err := c.creds.writeKubeconfig(c.dirs.kubeconfigOf(PartControllerManager), c.config.Host, certificateUser(c.creds.controllerManager))
	if err != nil {
		return err
	}
	p, err := c.spawn(PartControllerManager, c.dirs.controllerManagerCommand(c.binary(controlplane.ControllerManager)))
	if err != nil {
		return err
	}
	return c.add(p)
}

// waitForNode returns when the stand-in has registered its Node and takes Pods.
func (c *Cluster) waitForNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, nodeTimeout, fmt.Errorf("the node is not ready after %s", nodeTimeout))
	defer cancel()
	return c.poll(ctx, pollInterval, func() (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}
