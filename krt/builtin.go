package krt

import (
	"strings"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/krt/cli"
)

// correctBuiltins makes the commands that cobra brings answer a wrong word as our own do, instead of printing their help
// with success.
func correctBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = knownTopic
		case "completion":
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return unknownShell(cmd, args) }
			for _, shell := range cmd.Commands() {
				shell.Args = cli.NoArgs
			}
		}
	}
}

// knownTopic refuses words of "help" that are no command.
func knownTopic(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if len(rest) == 0 {
		return nil
	}
	if found.HasAvailableSubCommands() {
		return cli.KnownCommand(found, rest)
	}
	return cli.Usagef("there is no command %q", strings.Join(args, " "))
}

// unknownShell says for which shells there is completion.
func unknownShell(cmd *cobra.Command, args []string) error {
	var shells []string
	for _, shell := range cmd.Commands() {
		shells = append(shells, shell.Name())
	}
	err := cli.Usagef("name a shell")
	if len(args) > 0 {
		err = cli.Usagef("there is no completion for %q", args[0])
	}
	return cli.WithHint(err, "supported: %s", strings.Join(shells, ", "))
}
