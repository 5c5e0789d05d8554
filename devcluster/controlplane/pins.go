package controlplane

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed" // holds the pins
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"strings"
)

// The pins are a Go module of their own, kept under other names: a nested go.mod would hide the folder from go:embed,
// and krt has to carry the pins with it, because it may be installed away from the source tree.
var (
	//go:embed kube.mod
	pinnedMod []byte
	//go:embed kube.sum
	pinnedSum []byte
	//go:embed tools.go.txt
	pinnedTools []byte
)

// Binary names one program of Kubernetes.
type Binary string

// The programs that Ensure knows how to build.
const (
	// Etcd is the key-value store behind the API server.
	Etcd Binary = "etcd"
	// APIServer is kube-apiserver.
	APIServer Binary = "kube-apiserver"
	// ControllerManager is kube-controller-manager. The downloads of controller-runtime's envtest do not hold it.
	ControllerManager Binary = "kube-controller-manager"
	// Scheduler is kube-scheduler, which gives Pods to Nodes.
	Scheduler Binary = "kube-scheduler"
	// Kubelet runs the Pods of a Node.
	Kubelet Binary = "kubelet"
	// Proxy is kube-proxy, which routes the addresses of Services.
	Proxy Binary = "kube-proxy"
)

// All returns every program that devcluster runs.
func All() []Binary { return []Binary{Etcd, APIServer, ControllerManager} }

// Node returns what a cluster with a real node runs besides All. Only who asks for these has them built.
func Node() []Binary { return []Binary{Scheduler, Kubelet, Proxy} }

// packageOf returns the Go package that a program is built from.
func packageOf(b Binary) (string, error) {
	switch b {
	case Etcd:
		return "go.etcd.io/etcd/server/v3", nil
	case APIServer, ControllerManager, Scheduler, Kubelet, Proxy:
		return "k8s.io/kubernetes/cmd/" + string(b), nil
	default:
		return "", fmt.Errorf("unknown control plane program %q", b)
	}
}

// pinsHash names a build: the same pins, build flags and platform give the same name.
func pinsHash() string {
	h := sha256.New()
	for _, part := range [][]byte{pinnedMod, pinnedSum, pinnedTools, []byte(strings.Join(buildFlags(), " "))} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	fmt.Fprintf(h, "%s/%s", runtime.GOOS, runtime.GOARCH)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// kubernetesVersion returns the pinned version of Kubernetes, such as v1.37.2.
func kubernetesVersion() string {
	version, err := requiredVersion(bytes.NewReader(pinnedMod), "k8s.io/kubernetes")
	if err != nil {
		return "v0.0.0-unknown" // cannot happen with the embedded file; a test reads it
	}
	return version
}

// requiredVersion finds the version at which a go.mod requires module.
func requiredVersion(mod io.Reader, module string) (string, error) {
	lines := bufio.NewScanner(mod)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == module {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("module %s is not required", module)
}

// buildFlags are the flags of every build of the control plane.
func buildFlags() []string {
	version := kubernetesVersion()
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	major, minor := parts[0], ""
	if len(parts) > 1 {
		minor = parts[1]
	}
	const versionPackage = "k8s.io/component-base/version"
	return []string{
		"-trimpath", "-buildvcs=false", "-mod=readonly",
		fmt.Sprintf("-ldflags=-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
			versionPackage, version, major, minor),
	}
}
