package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/devcluster"
	"kruntimes.io/kruntimes/krt/cli"
)

// healthy is what the health of a part is called when nothing is wrong.
const healthy = "ok"

// askPatience bounds the questions to the API server.
const askPatience = 5 * time.Second

// statusOptions are the parsed command line of "krt dev status".
type statusOptions struct {
	stateDir, output string
	factory          *cli.Factory
}

func newStatus(f *cli.Factory, runF runner[*statusOptions]) *cobra.Command {
	if runF == nil {
		runF = runStatus
	}
	opts := &statusOptions{factory: f}
	cmd := &cobra.Command{
		Use: "status", Short: "Show the parts of the cluster", Args: cli.NoArgs,
		Long: `Show the parts of the running cluster with their processes, addresses and health.

Exit codes: 0 all is well, 1 a part is not, 3 no cluster is running.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.output != "" && opts.output != "json" && opts.output != "yaml" {
				return cli.Usagef("--output %s: use json or yaml", opts.output)
			}
			return runF(cmd.Context(), opts)
		},
	}
	addStateDir(cmd.Flags(), &opts.stateDir)
	cmd.Flags().StringVarP(&opts.output, "output", "o", "", "Print in this `format`: json, yaml")
	return cmd
}

// report is what "krt dev status -o json" prints.
type report struct {
	devcluster.State `json:",inline"`
	// StateDir is where the cluster keeps its files.
	StateDir string `json:"stateDir"`
	// Health tells by part what is wrong, or "ok".
	Health map[string]string `json:"health"`
	// Healthy tells whether all of them are well.
	Healthy bool `json:"healthy"`
}

func runStatus(ctx context.Context, o *statusOptions) error {
	state, dir, err := runningState(o.factory, o.stateDir)
	if err != nil {
		return err
	}
	r := report{State: state, StateDir: dir, Health: map[string]string{}, Healthy: state.Phase == devcluster.Ready}
	for _, part := range state.Parts {
		r.Health[part.Name] = cmp.Or(health(ctx, part, state), healthy)
		r.Healthy = r.Healthy && r.Health[part.Name] == healthy
	}
	if err := r.print(o.factory.IO.Out, o.output, o.factory.Now()); err != nil {
		return err
	}
	if !r.Healthy {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// health returns what is wrong with a part, or nothing.
func health(ctx context.Context, part devcluster.Part, state devcluster.State) string {
	if err := syscall.Kill(part.PID, 0); err != nil {
		return "its process is gone"
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	switch part.Name {
	case devcluster.PartAPIServer:
		client, err := clientOf(state)
		if err == nil {
			err = client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}
		return words(err)
	case devcluster.PartKubelet:
		client, err := clientOf(state)
		if err != nil {
			return words(err)
		}
		node, err := client.CoreV1().Nodes().Get(ctx, state.Node, metav1.GetOptions{})
		if err == nil && !isReady(node) {
			err = fmt.Errorf("node %s is not ready", state.Node)
		}
		return words(err)
	default: // the cluster ends with the first part that does
		return ""
	}
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func clientOf(state devcluster.State) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

func (r *report) print(out io.Writer, format string, now time.Time) error {
	switch format {
	case "json":
		content, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the status: %w", err)
		}
		_, err = fmt.Fprintln(out, string(content))
		return err
	case "yaml":
		content, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("encoding the status: %w", err)
		}
		_, err = out.Write(content)
		return err
	default:
		return r.printTable(out, now)
	}
}

func (r *report) printTable(out io.Writer, now time.Time) error {
	head := string(r.Phase)
	if !r.StartedAt.IsZero() {
		head += fmt.Sprintf(" for %s (pid %d)", now.Sub(r.StartedAt).Round(time.Second), r.PID)
	}
	for _, line := range [][2]string{{"API server", r.URL}, {"kubeconfig", r.Kubeconfig}} {
		if line[1] != "" {
			head += fmt.Sprintf("\n%s  %s", line[0], line[1])
		}
	}
	if _, err := fmt.Fprintln(out, head); err != nil || len(r.Parts) == 0 {
		return err
	}
	fmt.Fprintln(out)
	table := cli.NewTable(out)
	cli.Row(table, "PART", "PID", "HEALTH", "LOG")
	for _, part := range r.Parts {
		cli.Row(table, part.Name, strconv.Itoa(part.PID), r.Health[part.Name], part.Log)
	}
	return table.Flush()
}
