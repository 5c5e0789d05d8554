package kubelet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxPods is what the Node says it can take. Nothing counts it.
	maxPods = 500
	// readyMessage tells whoever looks at the Node what it is.
	readyMessage = "the stand-in of a dev cluster: Pods run as processes of the host, without isolation"
	// version is what the Node calls its kubelet.
	version = "v0.0.0-kruntimes-dev"
)

// register makes the Node, whose endpoint for logs and exec is port.
func (k *Kubelet) register(ctx context.Context, port int32) error {
	name := k.config.NodeName
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}}}
	if _, err := k.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering Node %s: %w", name, err)
	}
	patch, err := json.Marshal(map[string]any{"status": k.nodeStatus(port)})
	if err != nil {
		return fmt.Errorf("encoding the status of Node %s: %w", name, err)
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("writing the status of Node %s: %w", name, err)
	}
	return nil
}

func (k *Kubelet) nodeStatus(port int32) corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memoryBytes(), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	now := metav1.NewTime(k.clock.Now())
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: podIP}, {Type: corev1.NodeHostName, Address: k.config.NodeName},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: version, ContainerRuntimeVersion: "process://0", OperatingSystem: runtime.GOOS,
			Architecture: runtime.GOARCH, OSImage: "host", BootID: bootID(),
		},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: readyMessage,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}},
	}
}

// bootID returns what changes when the machine starts anew, or nothing where the system does not tell.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// memoryBytes returns how much memory the host has, or 0 where the system does not tell.
func memoryBytes() int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
