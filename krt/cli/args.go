package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NoArgs refuses every word after a command that takes none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return WithHint(Usagef("`%s` takes no arguments, but there is %q", cmd.CommandPath(), args[0]), "see `%s --help`", cmd.CommandPath())
}

// KnownCommand refuses a word after a group of commands that is none of them, and offers those that look like it.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return NoArgs(cmd, args)
	}
	err := Usagef("there is no command %q", args[0])
	if cmd.HasParent() {
		err = Usagef("`%s` has no command %q", cmd.CommandPath(), args[0])
	}
	if slices.Contains(byKubectl, args[0]) && !cmd.HasParent() {
		return WithHint(err, "kubectl has: `kubectl %s`", strings.Join(args, " "))
	}
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		return WithHint(err, "did you mean `%s %s`?", cmd.CommandPath(), strings.Join(similar, "`, `"+cmd.CommandPath()+" "))
	}
	return WithHint(err, "see `%s --help`", cmd.CommandPath())
}

// byKubectl are words that people expect to be commands, for kubectl has them and does them for our kinds as well.
var byKubectl = []string{"annotate", "apply", "create", "delete", "diff", "edit", "explain", "label", "patch", "replace", "scale"}
