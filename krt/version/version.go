// Package version is the command "krt version": which versions of krt, Kubernetes and the components of kruntimes meet.
package version

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
	"kruntimes.io/kruntimes/version"
)

// patience bounds the questions to the cluster.
const patience = 10 * time.Second

// oldest is the oldest Kubernetes that kruntimes supports: it needs selectable fields of custom resources.
const oldest = "1.32.0"

// options are the parsed command line.
type options struct {
	clientOnly bool
	output     string
	factory    *cli.Factory
}

// report is what the command prints.
type report struct {
	// Client is this program.
	Client client `json:"client"`
	// Kubernetes is the version of the API server; empty when there is none.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Components are the parts of kruntimes that run in the cluster, as far as this person may see them.
	Components []component `json:"components,omitempty"`
	// Warnings say what does not fit together.
	Warnings []string `json:"warnings,omitempty"`
}

// client is this program.
type client struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// component is one part of kruntimes, in one version.
type component struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	// Pods is how many Pods have this image; 0 when it is not counted.
	Pods int `json:"pods,omitempty"`
}

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of krt and of the cluster",
		Long: `Show the version of krt, of the cluster's Kubernetes, and the images of the components of kruntimes, as far as you may
see them. Without a configured cluster only the first is shown.`,
		Args: cli.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if opts.output != "" && opts.output != "json" && opts.output != "yaml" {
			return cli.Usagef("-o %s: must be json or yaml", opts.output)
		}
		return runF(cmd.Context(), opts)
	}
	cmd.Flags().BoolVar(&opts.clientOnly, "client", false, "Show the version of krt only, and do not ask the cluster")
	cmd.Flags().StringVarP(&opts.output, "output", "o", "", "Print in this `format`: json, yaml")
	complete.Flag(cmd, "output", complete.Words("json", "yaml"))
	return cmd
}

// execute does the work of the command. What is known is printed even when the cluster does not answer.
func execute(ctx context.Context, o *options) error {
	r := report{Client: client{
		Version: version.String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	var askErr error
	if !o.clientOnly {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		askErr = ask(ctx, o.factory, &r)
	}
	r.Warnings = warnings(r)
	if err := write(o, r); err != nil {
		return err
	}
	var none *cli.NoClusterError
	if errors.As(askErr, &none) {
		fmt.Fprintf(o.factory.IO.ErrOut, "krt: %v\n", askErr)
		return nil
	}
	return askErr
}

// ask fills in what the cluster tells.
func ask(ctx context.Context, f *cli.Factory, r *report) error {
	clientset, err := f.Clientset()
	if err != nil {
		return err
	}
	data, err := clientset.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	var server struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(data, &server); err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	r.Kubernetes = server.GitVersion
	r.Components = components(ctx, clientset)
	return nil
}

// warnings says what does not fit together.
func warnings(r report) []string {
	if r.Kubernetes == "" {
		return nil
	}
	have, err := utilversion.ParseGeneric(r.Kubernetes)
	if err != nil || !have.LessThan(utilversion.MustParseGeneric(oldest)) {
		return nil
	}
	return []string{fmt.Sprintf("Kubernetes %s is older than %s, the oldest that kruntimes supports", r.Kubernetes, oldest)}
}

func write(o *options, r report) error {
	out := o.factory.IO.Out
	switch o.output {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "    ")
		return enc.Encode(r)
	case "yaml":
		data, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("encoding the versions: %w", err)
		}
		_, err = out.Write(data)
		return err
	}
	table := cli.NewTable(out)
	cli.Row(table, "krt", fmt.Sprintf("%s (%s, %s)", r.Client.Version, r.Client.Go, r.Client.Platform))
	if r.Kubernetes != "" {
		cli.Row(table, "Kubernetes", r.Kubernetes)
	}
	for _, c := range r.Components {
		text := c.Image
		if c.Pods > 0 {
			text = fmt.Sprintf("%s (%d Pods)", c.Image, c.Pods)
		}
		cli.Row(table, c.Name, text)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(o.factory.IO.ErrOut, "krt: warning: %s\n", w)
	}
	return nil
}
