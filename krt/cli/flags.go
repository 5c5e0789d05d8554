package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
)

// AddConfigFlags defines the kubeconfig flags of kubectl. Unlike kubectl it checks what has a form already on the command
// line, so that a wrong value is not taken for a kubeconfig that cannot be used.
func AddConfigFlags(flags *pflag.FlagSet, config *genericclioptions.ConfigFlags) {
	config.AddFlags(flags)
	if flag := flags.Lookup("request-timeout"); flag != nil {
		flag.Value = requestTimeout{flag.Value}
	}
}

// requestTimeout is the value of --request-timeout: seconds, or a duration with a unit.
type requestTimeout struct{ pflag.Value }

// Set implements pflag.Value.
func (r requestTimeout) Set(text string) error {
	if value, err := clientcmd.ParseTimeout(text); err != nil || value < 0 {
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 90s or 5m", text)
	}
	return r.Value.Set(text)
}

// DurationVar defines a flag for a duration. Unlike that of pflag it says what is missing when a number has no unit, and
// takes no negative one.
func DurationVar(flags *pflag.FlagSet, target *time.Duration, name string, usage string) {
	flags.Var((*duration)(target), name, usage)
}

// duration is the value of a flag for a duration.
type duration time.Duration

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil && text != "0" {
		return fmt.Errorf("a duration needs a unit: write %[1]ss, %[1]sm or %[1]sh", text)
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s, 5m or 1h30m", text)
	}
	if value < 0 {
		return errors.New("must not be negative")
	}
	*d = duration(value)
	return nil
}

// Type implements pflag.Value.
func (*duration) Type() string { return "duration" }

// String implements pflag.Value. No duration shows as nothing, so that help texts have no default of 0s.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// DryRun says whether a command that writes does so. It takes the words of kubectl.
type DryRun string

// The values of --dry-run.
const (
	// DryRunNone writes.
	DryRunNone DryRun = "none"
	// DryRunClient sends nothing that writes.
	DryRunClient DryRun = "client"
	// DryRunServer has the API server check what would be written, and store nothing.
	DryRunServer DryRun = "server"
)

// DryRuns are the values of --dry-run as completion offers them.
func DryRuns() []string {
	return []string{string(DryRunClient), string(DryRunServer), string(DryRunNone)}
}

// AddDryRunFlag defines --dry-run[=MODE]. Given bare it means client, as for kubectl.
func AddDryRunFlag(flags *pflag.FlagSet, target *DryRun, usage string) {
	*target = DryRunNone
	flags.Var(target, "dry-run", usage)
	flags.Lookup("dry-run").NoOptDefVal = string(DryRunClient)
	flags.Lookup("dry-run").DefValue = ""
}

// Set implements pflag.Value.
func (d *DryRun) Set(text string) error {
	switch mode := DryRun(text); mode {
	case DryRunNone, DryRunClient, DryRunServer:
		*d = mode
		return nil
	}
	return fmt.Errorf("must be client, server or none")
}

// Type implements pflag.Value.
func (*DryRun) Type() string { return "mode" }

// String implements pflag.Value.
func (d *DryRun) String() string { return string(*d) }

// CheckWords refuses a word of the command line that looks as if it was meant to be the value of --dry-run: a flag that
// may stand alone takes its value after "=" only, and the word would be taken for a name.
func (d *DryRun) CheckWords(words []string) error {
	if *d == DryRunNone {
		return nil
	}
	for _, word := range words {
		if new(DryRun).Set(word) == nil {
			return WithHint(Usagef("%q stands alone, as if it were a name", word), "if it belongs to --dry-run, write --dry-run=%s", word)
		}
	}
	return nil
}

// Piece says which of the two words of --dry-run is meant when a person reports what would have been done.
func (d *DryRun) Piece() string {
	return map[DryRun]string{DryRunClient: "dry run", DryRunServer: "server dry run"}[*d]
}

// formats lists what -o takes, for hints and completion.
func formats(more []string) []string {
	return append(append([]string{}, more...), "json", "yaml", "name", "jsonpath=", "jsonpath-file=", "jsonpath-as-json=", "go-template=", "go-template-file=")
}

// formatWords lists the formats for a person.
func formatWords(more []string) string {
	return strings.Join(append(append([]string{}, more...), "json", "yaml", "name", "jsonpath=…", "go-template=…"), ", ")
}
