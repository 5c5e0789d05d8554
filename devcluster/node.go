package devcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"syscall"

	"kruntimes.io/kruntimes/devcluster/kubelet"
	"kruntimes.io/kruntimes/devcluster/process"
)

// Where the node image keeps its programs.
const (
	imageRuntimed      = "/runtimed"
	imageRuntimeServer = "/runtime-server"
)

// startKubelet runs the stand-in as a process of its own: it is the parent of everything that runs in Pods, and so can
// tell what they left behind. When this process dies in whatever way, the stand-in is told and ends them all.
func (c *Cluster) startKubelet(context.Context) error {
	if err := c.creds.writeKubeconfig(c.dirs.kubeconfigOf(PartKubelet), c.config.Host, certificateUser(c.creds.kubelet)); err != nil {
		return err
	}
	config, err := c.kubeletConfig()
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	if err := writeFile(c.dirs.kubeletConfig(), content); err != nil {
		return err
	}
	command := c.options.Binaries.Kubelet
	p, err := c.spawn(PartKubelet, process.Command{
		Path: command[0], Args: append(command[1:len(command):len(command)], "--config="+c.dirs.kubeletConfig()),
		LogFile: c.dirs.log(PartKubelet), ParentDeath: syscall.SIGTERM,
	})
	if err != nil {
		return err
	}
	p.stop = func() { p.process.Stop(syscall.SIGTERM, kubeletGrace) }
	return c.add(p)
}

func (c *Cluster) kubeletConfig() (*kubelet.Config, error) {
	api, err := url.Parse(c.config.Host)
	if err != nil {
		return nil, fmt.Errorf("parsing the API server's address: %w", err)
	}
	return &kubelet.Config{
		Kubeconfig: c.dirs.kubeconfigOf(PartKubelet), NodeName: NodeName, PodsDir: c.dirs.pods(), VolumesDir: c.dirs.volumes(),
		Programs: map[string]string{imageRuntimed: c.options.Binaries.Runtimed, imageRuntimeServer: c.options.Binaries.RuntimeServer},
		// A container gets the host's PATH and where the API server is, and nothing else of the caller's environment,
		// which may hold secrets.
		Environment: map[string]string{
			"PATH":                    lookupEnv(c.options.Environ, "PATH"),
			"KUBERNETES_SERVICE_HOST": api.Hostname(), "KUBERNETES_SERVICE_PORT": api.Port(),
			"KUBERNETES_SERVICE_PORT_HTTPS": api.Port(),
		},
		CertFile: c.dirs.cert(PartKubelet), KeyFile: c.dirs.key(PartKubelet),
		ClientCAFile: c.dirs.cert(certAuthority), ClientNames: []string{certKubeletClient},
	}, nil
}
