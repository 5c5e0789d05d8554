package cluster

import (
	"kruntimes.io/kruntimes/devcluster/controlplane"
	"kruntimes.io/kruntimes/test/cluster/node"
)

// The parts of a cluster, as Status and Restart call them.
const (
	PartContainerd        = "containerd"
	PartEtcd              = "etcd"
	PartAPIServer         = "kube-apiserver"
	PartControllerManager = "kube-controller-manager"
	PartScheduler         = "kube-scheduler"
	PartProxy             = "kube-proxy"
	PartKubelet           = "kubelet"
)

const (
	// NodeName is the name of the only Node.
	NodeName = "kruntimes-node"
	// podRange and serviceRange are routed on the node only, so all clusters may have the same.
	podRange     = "10.244.0.0/24"
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
	apiPort      = "6443"
	// issuer is who signs tokens of ServiceAccounts.
	issuer = "https://kubernetes.default.svc.cluster.local"
	// pauseImage holds the namespaces of a Pod.
	pauseImage = "kruntimes/pause:dev"
)

// commands knows the command lines of the parts.
type commands struct {
	layout
	// binaries are the paths of the programs of Kubernetes and of etcd.
	binaries map[controlplane.Binary]string
	// containerd is the path of containerd.
	containerdPath string
	// address is the node's.
	address string
}

func (c commands) part(name, path string, args ...string) node.Part {
	return node.Part{Name: name, Args: append([]string{path}, args...), Env: []string{"TMPDIR=" + c.temporary()}}
}

func (c commands) containerdPart() node.Part {
	return c.part(PartContainerd, c.containerdPath, "--config="+c.config("containerd.toml"))
}

// etcdPart lets etcd listen on a socket, where nobody else can open it.
func (c commands) etcdPart() node.Part {
	url, peers := "unix://"+c.etcdSocket(), "unix://"+c.etcdSocket()+".peer"
	return c.part(PartEtcd, c.binaries[controlplane.Etcd],
		"--name=node", "--data-dir="+c.etcdData(), "--logger=zap", "--log-level=warn",
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=node="+peers,
		"--unsafe-no-fsync", "--quota-backend-bytes=4294967296",
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m")
}

// apiServerPart has the admission plugins of a cluster's default, PodSecurity among them, and the one for owner references that some
// distributions have on: what is allowed with it is allowed without. It reaches webhooks without a route to Services.
func (c commands) apiServerPart() node.Part {
	return c.part(PartAPIServer, c.binaries[controlplane.APIServer],
		"--etcd-servers=unix://"+c.etcdSocket(),
		"--bind-address="+c.address, "--advertise-address="+c.address, "--secure-port="+apiPort,
		"--tls-cert-file="+c.cert(PartAPIServer), "--tls-private-key-file="+c.key(PartAPIServer),
		"--client-ca-file="+c.cert(certAuthority),
		"--kubelet-certificate-authority="+c.cert(certAuthority),
		"--kubelet-client-certificate="+c.cert(certKubeletClient), "--kubelet-client-key="+c.key(certKubeletClient),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer="+issuer,
		"--service-account-key-file="+c.cert(certServiceAccounts),
		"--service-account-signing-key-file="+c.key(certServiceAccounts),
		"--service-cluster-ip-range="+serviceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--requestheader-client-ca-file="+c.cert(certFrontProxy),
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--enable-aggregator-routing=true", "--allow-privileged=true", "--profiling=false", "--v=1")
}

// controllerManagerPart runs every controller of Kubernetes.
func (c commands) controllerManagerPart() node.Part {
	return c.part(PartControllerManager, c.binaries[controlplane.ControllerManager],
		"--kubeconfig="+c.kubeconfigOf(PartControllerManager),
		"--authentication-kubeconfig="+c.kubeconfigOf(PartControllerManager),
		"--authorization-kubeconfig="+c.kubeconfigOf(PartControllerManager),
		"--use-service-account-credentials=true", "--root-ca-file="+c.cert(certAuthority),
		"--service-account-private-key-file="+c.key(certServiceAccounts),
		"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false",
		"--kube-api-qps=100", "--kube-api-burst=200", "--v=1")
}

func (c commands) schedulerPart() node.Part {
	return c.part(PartScheduler, c.binaries[controlplane.Scheduler],
		"--kubeconfig="+c.kubeconfigOf(PartScheduler),
		"--authentication-kubeconfig="+c.kubeconfigOf(PartScheduler),
		"--authorization-kubeconfig="+c.kubeconfigOf(PartScheduler),
		"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false", "--v=1")
}

func (c commands) proxyPart() node.Part {
	return c.part(PartProxy, c.binaries[controlplane.Proxy], "--config="+c.config("kube-proxy.yaml"), "--v=1")
}

func (c commands) kubeletPart() node.Part {
	return c.part(PartKubelet, c.binaries[controlplane.Kubelet],
		"--config="+c.config("kubelet.yaml"), "--kubeconfig="+c.kubeconfigOf(PartKubelet), "--root-dir="+c.kubelet(),
		"--hostname-override="+NodeName, "--node-ip="+c.address, "--v=1")
}
