package devcluster

import (
	"fmt"
	"path/filepath"
	"strings"

	"kruntimes.io/kruntimes/devcluster/process"
)

// The parts of a cluster, as State, errors and logs call them.
const (
	// PartEtcd holds the data.
	PartEtcd = "etcd"
	// PartAPIServer is the API server of Kubernetes.
	PartAPIServer = "kube-apiserver"
	// PartControllerManager runs those controllers of Kubernetes that Runtimes rest on.
	PartControllerManager = "kube-controller-manager"
	// PartKubelet is the stand-in that runs Pods.
	PartKubelet = "kubelet"
	// PartManager runs the controllers of kruntimes.
	PartManager = "manager"
	// PartScheduler gives Runs to Pods.
	PartScheduler = "scheduler"
)

const (
	loopback = "127.0.0.1"
	// serviceRange and serviceIP are what the API server's own Service gets. Nothing routes there.
	serviceRange = "10.96.0.0/24"
	serviceIP    = "10.96.0.1"
	// issuer is who signs tokens of ServiceAccounts.
	issuer = "https://kubernetes.default.svc.cluster.local"
)

// kubeControllers are the controllers that Runtimes and Runs rest on. The publisher of the root certificate serves the
// volume with which a Pod reaches the API server. Those of volumes bind claims to what package storage makes, and let both go
// when no Pod uses them.
var kubeControllers = []string{
	"deployment-controller", "replicaset-controller", "garbage-collector-controller", "namespace-controller",
	"serviceaccount-controller", "root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
	"persistentvolume-binder-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
}

// etcdCommand lets etcd listen on a socket in the state directory only: no port to clash, and nobody else can open it.
func (d dirs) etcdCommand(binary string) process.Command {
	url, peers := "unix://"+d.etcdSocket(), "unix://"+d.etcdSocket()+".peer"
	return process.Command{
		Path: binary,
		Args: []string{
			"--name=dev", "--data-dir=" + d.etcdData(), "--logger=zap", "--log-level=warn",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=dev=" + peers,
			"--unsafe-no-fsync", "--snapshot-count=50000", "--quota-backend-bytes=4294967296",
			"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
		},
		LogFile: d.log(PartEtcd),
	}
}

func (d dirs) apiServerCommand(binary string, port int) process.Command {
	return process.Command{
		Path: binary,
		Args: []string{
			"--etcd-servers=unix://" + d.etcdSocket(),
			"--bind-address=" + loopback, "--advertise-address=" + loopback, fmt.Sprintf("--secure-port=%d", port),
			"--endpoint-reconciler-type=none",
			"--tls-cert-file=" + d.cert(PartAPIServer), "--tls-private-key-file=" + d.key(PartAPIServer),
			"--client-ca-file=" + d.cert(certAuthority),
			"--kubelet-certificate-authority=" + d.cert(certAuthority),
			"--kubelet-client-certificate=" + d.cert(certKubeletClient), "--kubelet-client-key=" + d.key(certKubeletClient),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=" + issuer,
			"--service-account-key-file=" + d.cert(certServiceAccounts),
			"--service-account-signing-key-file=" + d.key(certServiceAccounts),
			"--service-cluster-ip-range=" + serviceRange,
			"--authorization-mode=RBAC", "--anonymous-auth=false", "--allow-privileged=true", "--profiling=false",
			"--shutdown-delay-duration=0s", "--v=1",
		},
		LogFile: d.log(PartAPIServer),
	}
}

// controllerManagerCommand lets every controller act under its own ServiceAccount, as in a real cluster.
func (d dirs) controllerManagerCommand(binary string) process.Command {
	return process.Command{
		Path: binary,
		Args: []string{
			"--kubeconfig=" + d.kubeconfigOf(PartControllerManager), "--controllers=" + strings.Join(kubeControllers, ","),
			"--use-service-account-credentials=true", "--root-ca-file=" + d.cert(certAuthority),
			"--service-account-private-key-file=" + d.key(certServiceAccounts),
			"--leader-elect=false", "--secure-port=0", "--profiling=false",
			"--kube-api-qps=200", "--kube-api-burst=400", "--v=1",
		},
		LogFile: d.log(PartControllerManager),
	}
}

// dirs knows the layout of the state directory.
type dirs struct {
	state string
	// sockets is a directory whose name is short enough for unix sockets below it.
	sockets string
}

func (d dirs) etcdSocket() string              { return filepath.Join(d.sockets, "etcd.sock") }
func (d dirs) etcdData() string                { return filepath.Join(d.state, "etcd") }
func (d dirs) logs() string                    { return filepath.Join(d.state, "logs") }
func (d dirs) log(part string) string          { return filepath.Join(d.logs(), part+".log") }
func (d dirs) pki() string                     { return filepath.Join(d.state, "pki") }
func (d dirs) webhookCerts() string            { return filepath.Join(d.pki(), certWebhook) }
func (d dirs) cert(name string) string         { return filepath.Join(d.pki(), name+".crt") }
func (d dirs) key(name string) string          { return filepath.Join(d.pki(), name+".key") }
func (d dirs) token(part string) string        { return filepath.Join(d.pki(), part+".token") }
func (d dirs) kubeconfigOf(part string) string { return filepath.Join(d.pki(), part+".kubeconfig") }
func (d dirs) kubeconfig() string              { return filepath.Join(d.state, "kubeconfig") }
func (d dirs) pods() string                    { return filepath.Join(d.sockets, "pods") }
func (d dirs) volumes() string                 { return filepath.Join(d.state, "volumes") }
func (d dirs) kubeletConfig() string           { return filepath.Join(d.state, "kubelet.json") }
func (d dirs) auditPolicy() string             { return filepath.Join(d.state, "audit-policy.json") }
