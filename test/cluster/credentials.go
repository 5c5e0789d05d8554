package cluster

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kruntimes.io/kruntimes/devcluster/pki"
)

// The names under which certificates are stored, besides those of the parts.
const (
	certAuthority       = "ca"
	certFrontProxy      = "front-proxy-ca"
	certKubeletClient   = "kube-apiserver-kubelet-client"
	certServiceAccounts = "service-accounts"
)

// groupMasters may do everything.
const groupMasters = "system:masters"

// writeCredentials makes a new authority, the certificates of all parts, their kubeconfigs, and that of the administrator.
func (c commands) writeCredentials(now time.Time) error {
	authority, err := pki.NewAuthority(now)
	if err != nil {
		return err
	}
	frontProxy, err := pki.NewAuthority(now)
	if err != nil {
		return err
	}
	for name, a := range map[string]*pki.Authority{certAuthority: authority, certFrontProxy: frontProxy} {
		if err := os.WriteFile(c.cert(name), a.CertPEM, 0o600); err != nil {
			return fmt.Errorf("writing a certificate authority: %w", err)
		}
	}
	for name, makePair := range map[string]func() (pki.Pair, error){
		PartAPIServer: func() (pki.Pair, error) {
			return authority.Server(PartAPIServer, c.address, serviceIP, "localhost", "kubernetes", "kubernetes.default",
				"kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
		},
		PartKubelet:         func() (pki.Pair, error) { return authority.Server(PartKubelet, c.address, NodeName) },
		certKubeletClient:   func() (pki.Pair, error) { return authority.Client(certKubeletClient, groupMasters) },
		certServiceAccounts: pki.SigningKey,
	} {
		pair, err := makePair()
		if err != nil {
			return err
		}
		if err := pair.WriteFiles(c.pki(), name); err != nil {
			return err
		}
	}
	return c.writeUsers(authority)
}

func (c commands) writeUsers(authority *pki.Authority) error {
	for path, user := range map[string]struct {
		name   string
		groups []string
	}{
		c.kubeconfig():                        {name: "kubernetes-admin", groups: []string{groupMasters}},
		c.kubeconfigOf(PartControllerManager): {name: "system:kube-controller-manager"},
		c.kubeconfigOf(PartScheduler):         {name: "system:kube-scheduler"},
		c.kubeconfigOf(PartProxy):             {name: "system:kube-proxy"},
		c.kubeconfigOf(PartKubelet):           {name: "system:node:" + NodeName, groups: []string{"system:nodes"}},
	} {
		pair, err := authority.Client(user.name, user.groups...)
		if err != nil {
			return err
		}
		if err := c.writeKubeconfig(path, authority, pair); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig stores a kubeconfig that is complete in itself.
func (c commands) writeKubeconfig(path string, authority *pki.Authority, user pki.Pair) error {
	const name = "kruntimes-cluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + c.address + ":" + apiPort, CertificateAuthorityData: authority.CertPEM,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: user.Cert, ClientKeyData: user.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
