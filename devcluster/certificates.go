package devcluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kruntimes.io/kruntimes/devcluster/pki"
)

// The names under which certificates are stored, besides those of the parts.
const (
	certAuthority       = "ca"
	certKubeletClient   = "kube-apiserver-kubelet-client"
	certServiceAccounts = "service-accounts"
)

// groupMasters may do everything.
const groupMasters = "system:masters"

// credentials are the identities with which the processes of a cluster meet each other.
type credentials struct {
	authority *pki.Authority
	// admin is for people, kubelet for the stand-in, both may do everything.
	admin, kubelet pki.Pair
	// controllerManager is known to the API server's own roles.
	controllerManager pki.Pair
}

// makeCredentials makes all certificates and stores those that other processes read from files.
func makeCredentials(d dirs, o *Options) (*credentials, error) {
	authority, err := pki.NewAuthority(o.Clock.Now())
	if err != nil {
		return nil, err
	}
	c := &credentials{authority: authority}
	var server, kubeletServer, kubeletClient, webhook, signing pki.Pair
	for _, make := range []struct {
		into *pki.Pair
		from func() (pki.Pair, error)
	}{
		{&server, func() (pki.Pair, error) {
			return authority.Server(PartAPIServer, loopback, serviceIP, "localhost", "kubernetes.default.svc")
		}},
		{&kubeletServer, func() (pki.Pair, error) { return authority.Server(PartKubelet, loopback, "localhost") }},
		{&webhook, func() (pki.Pair, error) { return authority.Server(certWebhook, loopback) }},
		{&kubeletClient, func() (pki.Pair, error) { return authority.Client(certKubeletClient) }},
		{&signing, pki.SigningKey},
		{&c.admin, func() (pki.Pair, error) { return authority.Client("dev-admin", groupMasters) }},
		{&c.kubelet, func() (pki.Pair, error) { return authority.Client("dev-kubelet", groupMasters) }},
		{&c.controllerManager, func() (pki.Pair, error) { return authority.Client("system:kube-controller-manager") }},
	} {
		if *make.into, err = make.from(); err != nil {
			return nil, err
		}
	}
	for name, pair := range map[string]pki.Pair{
		PartAPIServer: server, PartKubelet: kubeletServer, certKubeletClient: kubeletClient, certServiceAccounts: signing,
	} {
		if err := pair.WriteFiles(d.pki(), name); err != nil {
			return nil, err
		}
	}
	if err := webhook.WriteFiles(d.webhookCerts(), webhookCertName); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.cert(certAuthority), authority.CertPEM, 0o600); err != nil {
		return nil, fmt.Errorf("writing the certificate authority: %w", err)
	}
	return c, nil
}

// writeKubeconfig stores a kubeconfig with the given user, complete in itself.
func (c *credentials) writeKubeconfig(path, url string, user *clientcmdapi.AuthInfo) error {
	const name = "kruntimes-dev"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: c.authority.CertPEM}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return writeFile(path, content)
}

func certificateUser(pair pki.Pair) *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
}
