package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// layout knows where things are in a state directory.
type layout struct {
	// state is absolute.
	state string
}

// id tells the clusters of a machine apart, by their state directories. It fits into the name of an interface.
func (l layout) id() string {
	sum := sha256.Sum256([]byte(l.state))
	return hex.EncodeToString(sum[:])[:8]
}

func (l layout) kubeconfig() string              { return filepath.Join(l.state, "kubeconfig") }
func (l layout) logs() string                    { return filepath.Join(l.state, "logs") }
func (l layout) log(part string) string          { return filepath.Join(l.logs(), part+".log") }
func (l layout) temporary() string               { return filepath.Join(l.state, "tmp") }
func (l layout) marker() string                  { return filepath.Join(l.state, "kruntimes-cluster") }
func (l layout) nodeSocket() string              { return filepath.Join(l.state, "node.sock") }
func (l layout) etcdData() string                { return filepath.Join(l.state, "etcd") }
func (l layout) etcdSocket() string              { return filepath.Join(l.state, "etcd.sock") }
func (l layout) pki() string                     { return filepath.Join(l.state, "pki") }
func (l layout) cert(name string) string         { return filepath.Join(l.pki(), name+".crt") }
func (l layout) key(name string) string          { return filepath.Join(l.pki(), name+".key") }
func (l layout) kubeconfigOf(part string) string { return filepath.Join(l.pki(), part+".kubeconfig") }
func (l layout) configs() string                 { return filepath.Join(l.state, "config") }
func (l layout) config(name string) string       { return filepath.Join(l.configs(), name) }
func (l layout) cniConfigs() string              { return filepath.Join(l.configs(), "cni") }
func (l layout) containerd() string              { return filepath.Join(l.state, "containerd") }
func (l layout) containerdSocket() string        { return filepath.Join(l.state, "containerd.sock") }
func (l layout) kubelet() string                 { return filepath.Join(l.state, "kubelet") }
func (l layout) podLogs() string                 { return filepath.Join(l.state, "pods") }

// volumes is where directories for local PersistentVolumes may be made.
func (l layout) volumes() string { return filepath.Join(l.state, "volumes") }

// dirs are the directories that have to be there before anything starts.
func (l layout) dirs() []string {
	return []string{
		l.logs(), l.temporary(), l.pki(), l.configs(), l.cniConfigs(), l.containerd(), l.kubelet(),
		l.podLogs(), l.volumes(),
	}
}

// cgroup is the group, in every hierarchy, below which all containers are.
func (l layout) cgroup() string { return "kruntimes-" + l.id() }

// hostInterface is the machine's end of the node's interface.
func (l layout) hostInterface() string { return "kr" + l.id() }
