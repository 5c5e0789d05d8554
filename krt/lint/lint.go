// Package lint is the command "krt lint": it checks files of manifests without a cluster, as the API server and the
// WorkflowRun controller would, and says where in the file something is wrong.
package lint

import (
	"context"
	"encoding/json"
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
	"kruntimes.io/kruntimes/krt/definitions"
	"kruntimes.io/kruntimes/workflow/calls"
)

// The values of --output.
const (
	outputText   = ""
	outputGitHub = "github"
	outputJSON   = "json"
)

// options are the parsed command line.
type options struct {
	files   []string
	output  string
	strict  bool
	online  bool
	factory *cli.Factory
}

const long = `Check files of manifests without a cluster: YAML, fields that do not exist, the schema and rules of the kinds of kruntimes
and, of WorkflowRuns, Workflows and Actions, names, expressions, and what jobs need of one another. Of a directory, all
files are checked whose names end in .yaml or .yml. Of a List, the items are. Objects of other kinds are left alone.

Calls of Workflows and Actions are followed among all files that are given: inputs, cycles and bounds are checked as the
cluster does. A call of what is in none of them is a warning, for it may be in the cluster; with --online it is looked for
there, in the namespace of the caller or of the command line, and what is missing is an error.

Each finding is a line "file:line:column: message". A warning is about what works, but should be done differently, or could
not be checked. The exit code is 1 when something is wrong; with --strict, also when there are warnings.`

const example = `  krt lint -f examples/ci.yaml
  krt lint -f workflows/ -f more.yaml
  krt lint -f workflows/ --online -n team
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
		case !slices.Contains([]string{outputText, outputGitHub, outputJSON}, opts.output):
			return cli.WithHint(cli.Usagef("--output %s: there is no such format", opts.output), "leave it out, or write github or json")
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&opts.files, "file", "f", nil, "Check this `file` or directory; - reads standard input; may be repeated")
	flags.StringVarP(&opts.output, "output", "o", outputText, "Print findings in this `format`: json, or github, which makes them annotations of a workflow")
	flags.BoolVar(&opts.strict, "strict", false, "Let warnings count as errors")
	flags.BoolVar(&opts.online, "online", false, "Look in the cluster for Workflows and Actions that are called and in no file")
	complete.Flag(cmd, "output", complete.Words(outputGitHub, outputJSON))
	return cmd
}

// execute does the work of the command: all files, what they call, and then the sum.
func execute(ctx context.Context, o *options) error {
	seen, readErr := o.checkFiles(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	elsewhere, err := o.elsewhere(ctx)
	if err != nil {
		return err
	}
	called, unchecked, err := Calls(seen.documents, elsewhere)
	if err != nil {
		return err
	}
	findings := inOrder(slices.Concat(seen.findings, called, unchecked), seen.files...)
	if err := o.print(findings); err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	isWrong := func(f Finding) bool { return !f.Warning || o.strict }
	if readErr == nil && slices.ContainsFunc(findings, isWrong) {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return readErr
}

// checked is what was found in files by themselves.
type checked struct {
	// files are their names, as findings call them, in their order.
	files     []string
	documents []Document
	findings  []Finding
}

// checkFiles checks each file by itself. What cannot be read is in the error, after all others have been.
func (o *options) checkFiles(ctx context.Context) (checked, error) {
	var seen checked
	var errs []error
	for _, named := range o.files {
		files, err := expand(named)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			if slices.Contains(seen.files, FileName(file)) {
				continue // named twice, or in a directory that is named as well
			}
			documents, findings, err := CheckFile(ctx, o.factory.IO.In, file)
			seen.files, seen.documents, seen.findings = append(seen.files, FileName(file)), append(seen.documents, documents...), append(seen.findings, findings...)
			if errs = append(errs, err); ctx.Err() != nil {
				return checked{}, ctx.Err()
			}
		}
	}
	return seen, errors.Join(errs...)
}

// elsewhere looks for definitions in the cluster, if that is asked for.
func (o *options) elsewhere(ctx context.Context) (*Elsewhere, error) {
	if !o.online {
		return nil, nil
	}
	ours, err := o.factory.Namespace()
	if err != nil {
		return nil, err
	}
	c, err := o.factory.Client()
	if err != nil {
		return nil, err
	}
	return &Elsewhere{Namespace: ours, Definitions: func(namespace string) calls.Definitions {
		return definitions.NewReader(ctx, c, namespace)
	}}, nil
}

// print writes the findings as asked for.
func (o *options) print(findings []Finding) error {
	if o.output == outputJSON {
		encoder := json.NewEncoder(o.factory.IO.Out)
		encoder.SetIndent("", "    ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(append([]Finding{}, findings...)) // else none would be null
	}
	for _, f := range findings {
		line := f.String()
		if o.output == outputGitHub {
			line = annotation(f)
		}
		if _, err := fmt.Fprintln(o.factory.IO.Out, line); err != nil {
			return err
		}
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
