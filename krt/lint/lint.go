// Package lint is the command "krt lint": it checks files of manifests without a cluster, as the API server and the
// WorkflowRun controller would, and says where in the file something is wrong.
package lint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
)

// The values of --output.
const (
	outputText   = ""
	outputGitHub = "github"
)

// options are the parsed command line.
type options struct {
	files   []string
	output  string
	strict  bool
	factory *cli.Factory
}

const long = `Check files of manifests without a cluster: YAML, fields that do not exist, the schema and rules of the kinds of kruntimes
and, of WorkflowRuns, Workflows and Actions, names, expressions, and what jobs need of one another. Of a directory, all
files are checked whose names end in .yaml or .yml. Of a List, the items are. Objects of other kinds are left alone.

Each finding is a line "file:line:column: message". A warning is about what works, but should be done differently. The
exit code is 1 when something is wrong; with --strict, also when there are warnings.`

const example = `  krt lint -f examples/ci.yaml
  krt lint -f workflows/ -f more.yaml
  krt lint -f workflows/ -o github     # in a GitHub action`

// NewCmd returns the command. runF replaces the work in tests; nil means the real work.
func NewCmd(f *cli.Factory, runF func(context.Context, *options) error) *cobra.Command {
	if runF == nil {
		runF = execute
	}
	opts := &options{factory: f}
	cmd := &cobra.Command{
		Use: "lint -f FILE...", Short: "Check manifests without a cluster", Long: long, Example: example, Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.files = append(opts.files, args...)
		switch {
		case len(opts.files) == 0:
			return cli.WithHint(cli.Usagef("--file is missing"), "name files or directories: `%s lint -f workflows/`", f.Name)
		case opts.output != outputText && opts.output != outputGitHub:
			return cli.WithHint(cli.Usagef("--output %s: there is no such format", opts.output), "leave it out, or write github")
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&opts.files, "file", "f", nil, "Check this `file` or directory; - reads standard input; may be repeated")
	flags.StringVarP(&opts.output, "output", "o", outputText, "Print findings in this `format`: github makes them annotations of a workflow")
	flags.BoolVar(&opts.strict, "strict", false, "Let warnings count as errors")
	complete.Flag(cmd, "output", complete.Words(outputGitHub))
	return cmd
}

// execute does the work of the command: all files, and then the sum.
func execute(ctx context.Context, o *options) error {
	var findings []Finding
	var errs []error
	for _, named := range o.files {
		files, err := expand(named)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			_, found, err := CheckFile(ctx, o.factory.IO.In, file)
			findings, errs = append(findings, found...), append(errs, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	wrong := 0
	for _, f := range findings {
		line := f.String()
		if o.output == outputGitHub {
			line = annotation(f)
		}
		if _, err := fmt.Fprintln(o.factory.IO.Out, line); err != nil {
			return fmt.Errorf("writing the findings: %w", err)
		}
		if !f.Warning || o.strict {
			wrong++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if wrong > 0 {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// expand returns the files that a name stands for. Those of a directory come sorted.
func expand(named string) ([]string, error) {
	if named == "-" {
		return []string{named}, nil
	}
	info, err := os.Stat(named)
	if err != nil {
		return nil, cli.Usagef("finding the manifests: %w", err)
	}
	switch {
	case info.Mode().IsRegular(), info.Mode()&fs.ModeNamedPipe != 0: // a shell's <(command) is a pipe
		return []string{named}, nil
	case !info.IsDir():
		return nil, cli.Usagef("%s is neither a file nor a directory", named)
	}
	var files []string
	var odd []error
	err = filepath.WalkDir(named, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return nil
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			files = append(files, path)
		case !info.IsDir(): // reading it might never end
			odd = append(odd, cli.Usagef("%s is no regular file, and was not checked", path))
		}
		return nil
	})
	if err != nil {
		return files, cli.Usagef("finding the manifests: %w", err)
	}
	if len(odd) > 0 {
		return files, errors.Join(odd...)
	}
	if len(files) == 0 {
		return nil, cli.Usagef("the directory %s holds no file whose name ends in .yaml or .yml", named)
	}
	return files, nil
}

// annotation writes a finding as a command of GitHub's workflows, in which some characters are written otherwise.
func annotation(f Finding) string {
	kind := "error"
	if f.Warning {
		kind = "warning"
	}
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d::%s", kind, property.Replace(f.File), f.Line, f.Column, message.Replace(f.Message))
}
