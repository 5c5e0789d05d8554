package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed configs/*
var configFiles embed.FS

// configValues is what the files in configs are filled with.
type configValues struct {
	State, Containerd, ContainerdSocket, CNIConfigs, CNIPlugins, PauseImage string
	PodRange, Address, NodeName, Cgroup, PodLogs, ResolvConf                string
	Authority, KubeletCert, KubeletKey, ProxyKubeconfig                     string
}

func (c commands) configValues() configValues {
	return configValues{
		State: c.state, Containerd: c.containerd(), ContainerdSocket: c.containerdSocket(),
		CNIConfigs: c.cniConfigs(), CNIPlugins: cniPlugins, PauseImage: pauseImage,
		PodRange: podRange, Address: c.address, NodeName: NodeName, Cgroup: "/" + c.cgroup(),
		PodLogs: c.podLogs(), ResolvConf: c.config("resolv.conf"),
		Authority: c.cert(certAuthority), KubeletCert: c.cert(PartKubelet), KubeletKey: c.key(PartKubelet),
		ProxyKubeconfig: c.kubeconfigOf(PartProxy),
	}
}

// renderConfigs returns the content of every configuration file by its name.
func renderConfigs(values configValues) (map[string][]byte, error) {
	templates, err := template.New("").Option("missingkey=error").ParseFS(configFiles, "configs/*")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration files: %w", err)
	}
	files := map[string][]byte{}
	for _, t := range templates.Templates() {
		if t.Name() == "" {
			continue
		}
		var content bytes.Buffer
		if err := t.Execute(&content, values); err != nil {
			return nil, fmt.Errorf("filling %s: %w", t.Name(), err)
		}
		files[t.Name()] = content.Bytes()
	}
	return files, nil
}

func (c commands) writeConfigs() error {
	files, err := renderConfigs(c.configValues())
	if err != nil {
		return err
	}
	for name, content := range files {
		path := c.config(name)
		if filepath.Ext(name) == ".conflist" {
			path = filepath.Join(c.cniConfigs(), name)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
