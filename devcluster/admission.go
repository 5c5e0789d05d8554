package devcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/manager"
)

const (
	// certWebhook is the manager's certificate towards the API server, as the name of a server; webhookCertName is the
	// name of its files.
	certWebhook, webhookCertName = "webhook", "tls"
	// admissionTimeout is how long the manager may take to answer for the first time.
	admissionTimeout = time.Minute
)

// hasAdmission tells whether there is a manager that the API server asks.
func (o *Options) hasAdmission() bool {
	return !o.WithoutProduct && slices.Contains(o.Groups, groups.Workspaces)
}

// admissionOptions say where the manager answers. Port and certificate are the cluster's, so that a manager that is started
// again is found where the one before was.
func (c *Cluster) admissionOptions() manager.AdmissionOptions {
	if !c.options.hasAdmission() {
		return manager.AdmissionOptions{}
	}
	return manager.AdmissionOptions{
		Address: c.webhookAddress(), CertDir: c.dirs.webhookCerts(),
		Controller: config.Namespace + "/" + config.ManagerServiceAccount, UserRole: config.WorkspaceUserClusterRole,
	}
}

// admissionArguments are admissionOptions as arguments of the manager's program.
func (c *Cluster) admissionArguments() []string {
	o := c.admissionOptions()
	if !c.options.hasAdmission() {
		return nil
	}
	return []string{"--webhook-address=" + o.Address, "--webhook-cert-dir=" + o.CertDir, "--controller-service-account=" + o.Controller,
		"--workspace-user-cluster-role=" + o.UserRole}
}

func (c *Cluster) webhookAddress() string {
	return net.JoinHostPort(loopback, strconv.Itoa(c.webhookPort))
}

// adaptAdmission makes the API server ask the manager of this cluster, or nobody where there is none.
func (c *Cluster) adaptAdmission(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	isWebhooks := func(object *unstructured.Unstructured) bool { return object.GetKind() == config.KindWebhooks }
	if !c.options.hasAdmission() {
		return slices.DeleteFunc(objects, isWebhooks), nil
	}
	port, err := ports.Free()
	if err != nil {
		return nil, fmt.Errorf("choosing where the manager answers: %w", err)
	}
	c.webhookPort = port
	for _, object := range objects {
		if !isWebhooks(object) {
			continue
		}
		if err := config.ReachWebhooksAt(object, "https://"+c.webhookAddress(), c.creds.authority.CertPEM); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// waitForAdmission returns when the manager answers the API server: until then Runs with a workspace are refused.
func (c *Cluster) waitForAdmission(ctx context.Context) error {
	if !c.options.hasAdmission() {
		return nil
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(c.creds.authority.CertPEM) {
		return errors.New("the certificate authority cannot be read")
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: probeTimeout}, Config: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeoutCause(ctx, admissionTimeout, fmt.Errorf("the manager does not answer the API server after %s", admissionTimeout))
	defer cancel()
	return c.poll(ctx, pollInterval, func() (bool, error) {
		connection, err := dialer.DialContext(ctx, "tcp", c.webhookAddress())
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
}
