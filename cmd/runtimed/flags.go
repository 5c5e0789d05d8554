package main

import (
	"flag"
	"fmt"
	"os"

	"kruntimes.io/kruntimes/runtimed"
	"kruntimes.io/kruntimes/runtimed/executor"
	"kruntimes.io/kruntimes/runtimed/gitsource"
	"kruntimes.io/kruntimes/version/logging"
)

// parse makes options of the command line and of the environment that a kubelet provides.
func parse(args []string, getenv func(string) string) (opts runtimed.Options, verbosity logging.Verbosity, err error) {
	opts = runtimed.Options{
		Pod:    executor.Pod{Name: getenv("POD_NAME"), Namespace: getenv("POD_NAMESPACE"), UID: getenv("POD_UID")},
		Stdout: os.Stdout,
	}
	for _, name := range gitsource.PassedVariables() {
		if value := getenv(name); value != "" {
			opts.FetchEnv = append(opts.FetchEnv, name+"="+value)
		}
	}
	var tokenDir string
	flags := flag.NewFlagSet("runtimed", flag.ContinueOnError)
	flags.StringVar(&opts.Socket, "socket", "/kruntimes/socket/runtimed.sock", "unix socket that the runtime server dials")
	flags.StringVar(&opts.Scratch, "scratch", "/kruntimes/scratch", "volume for the directories of executions")
	flags.StringVar(&opts.State, "state", defaultState, "directory for what must outlive a restart of runtimed")
	flags.StringVar(&opts.Workspace, "workspace", "/workspace", "where the workspace volume is mounted")
	flags.StringVar(&tokenDir, "token-dir", "/var/run/secrets/kubernetes.io/serviceaccount", "directory with token and ca.crt")
	flags.StringVar(&opts.HealthAddress, "health-address", ":8086", "where /readyz is served; 0 turns it off")
	store := addArtifactFlags(flags, &opts.Artifacts)
	verbosity.AddFlag(flags)
	flags.Func("interpreter", "a word of the command that runs a script; once per word (default /bin/sh -e)",
		func(word string) error {
			opts.Interpreter = append(opts.Interpreter, word)
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return opts, 0, fmt.Errorf("reading the command line: %w", err)
	}
	if flags.NArg() > 0 {
		return opts, verbosity, fmt.Errorf("reading the command line: unexpected argument %q", flags.Arg(0))
	}
	if err := store.parsed(); err != nil {
		return opts, verbosity, fmt.Errorf("reading the command line: %w", err)
	}
	if len(opts.Interpreter) == 0 {
		opts.Interpreter = []string{"/bin/sh", "-e"}
	}
	opts.Config, err = runtimed.InClusterConfig(getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"), tokenDir)
	return opts, verbosity, err
}
