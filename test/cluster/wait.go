package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/test/cluster/node"
)

const (
	// pollInterval is how often the start looks whether a part answers.
	pollInterval = 100 * time.Millisecond
	// The limits are generous: on a loaded machine the start takes several times as long.
	apiServerTimeout  = 3 * time.Minute
	nodeTimeout       = 3 * time.Minute
	containerdTimeout = time.Minute
	// probeTimeout bounds one look.
	probeTimeout = 5 * time.Second
)

// until waits for a condition, at most for limit. what completes "waiting until …".
func until(ctx context.Context, limit time.Duration, what string, condition func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, limit, true, condition); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

func (c *Cluster) client() (*kubernetes.Clientset, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = probeTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// stillRuns is an error when a part has ended by itself.
func (c *Cluster) stillRuns(ctx context.Context, part string) error {
	states, err := c.node.Parts(ctx)
	if err != nil {
		return err
	}
	for _, state := range states {
		if state.Name == part && !state.Running {
			return fmt.Errorf("%s has ended (%s); its log is %s", part, state.Exit, c.log(part))
		}
	}
	return nil
}

func (c *Cluster) waitForAPIServer(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return until(ctx, apiServerTimeout, "kube-apiserver is ready (log: "+c.log(PartAPIServer)+")", func(ctx context.Context) (bool, error) {
		if client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil {
			return true, nil
		}
		return false, c.stillRuns(ctx, PartAPIServer)
	})
}

// lineTimeout bounds how long a part may take to write a line.
const lineTimeout = 2 * time.Minute

// StartUntil is Start, and returns when the part has written this line to its log. What is there of an earlier start does not count.
func (c *Cluster) StartUntil(ctx context.Context, part node.Part, line string) error {
	log := c.log(part.Name)
	earlier, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading a log: %w", err)
	}
	if err := c.Start(ctx, part); err != nil {
		return err
	}
	return until(ctx, lineTimeout, part.Name+" writes "+line+" (log: "+log+")", func(ctx context.Context) (bool, error) {
		content, err := os.ReadFile(log)
		if err != nil {
			return false, fmt.Errorf("reading a log: %w", err)
		}
		if slices.Contains(strings.Split(string(content[min(len(earlier), len(content)):]), "\n"), line) {
			return true, nil
		}
		return false, c.stillRuns(ctx, part.Name)
	})
}

func (c *Cluster) waitForContainerd(ctx context.Context) error {
	return until(ctx, containerdTimeout, "containerd listens (log: "+c.log(PartContainerd)+")", func(ctx context.Context) (bool, error) {
		if _, err := os.Stat(c.containerdSocket()); err == nil {
			return true, nil
		}
		return false, c.stillRuns(ctx, PartContainerd)
	})
}

// waitForNode returns when the Node takes Pods.
func (c *Cluster) waitForNode(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return until(ctx, nodeTimeout, "the node is ready (log: "+c.log(PartKubelet)+")", func(ctx context.Context) (bool, error) {
		seen, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err == nil && isReady(seen) {
			return true, nil
		}
		return false, c.stillRuns(ctx, PartKubelet)
	})
}

func isReady(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0
		}
	}
	return false
}
