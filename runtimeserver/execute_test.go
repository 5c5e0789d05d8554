package runtimeserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// outcome is what a user sees of an execution that ended.
type outcome struct {
	Started        bool
	Cause          runtimev1.ExitCause
	Code           int32
	Message        string
	Stdout, Stderr string
}

func outcomeOf(rec *record) outcome {
	return outcome{
		Started: rec.started != nil, Cause: rec.exited.GetCause(), Code: rec.exited.GetExitCode(),
		Message: rec.exited.GetMessage(), Stdout: rec.stdout.String(), Stderr: rec.stderr.String(),
	}
}

const (
	exitedCause   = runtimev1.ExitCause_EXIT_CAUSE_EXITED
	notFoundCause = runtimev1.ExitCause_EXIT_CAUSE_COMMAND_NOT_FOUND
	failedCause   = runtimev1.ExitCause_EXIT_CAUSE_START_FAILED
	stoppedCause  = runtimev1.ExitCause_EXIT_CAUSE_STOPPED
)

func write(t *testing.T, file, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExecute(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "greet"), "#!/bin/sh\necho hello from $0\n", 0o755)
	orphan := write(t, filepath.Join(dir, "orphan"), "#!/no/such/interpreter -x\n", 0o755)
	plain := write(t, filepath.Join(dir, "plain"), "echo plain\n", 0o644)
	garbage := write(t, filepath.Join(dir, "garbage"), "\x00\x01\x02", 0o755)
	env := func(pairs ...string) []*runtimev1.EnvVar {
		var vars []*runtimev1.EnvVar
		for i := 0; i < len(pairs); i += 2 {
			vars = append(vars, &runtimev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return vars
	}
	cases := map[string]struct {
		argv []string
		env  []*runtimev1.EnvVar
		dir  string
		want outcome
	}{
		"succeeds": {
			argv: []string{"/bin/sh", "-c", "echo out; echo err >&2"},
			want: outcome{Started: true, Cause: exitedCause, Stdout: "out\n", Stderr: "err\n"},
		},
		"keeps the exit code": {
			argv: []string{"/bin/sh", "-c", "exit 42"},
			want: outcome{Started: true, Cause: exitedCause, Code: 42},
		},
		"is ended by a signal of its own": {
			argv: []string{"/bin/sh", "-c", "kill -9 $$"},
			want: outcome{Started: true, Cause: exitedCause, Code: 137, Message: "ended by signal 9 (killed)"},
		},
		"hands arguments on as they are": {
			argv: []string{"/bin/sh", "-c", `printf '<%s>' "$@"`, "sh", "a b", "", "*", "é", "-n"},
			want: outcome{Started: true, Cause: exitedCause, Stdout: "<a b><><*><é><-n>"},
		},
		"adds to the environment of the image, the last value wins": {
			argv: []string{"/bin/sh", "-c", `echo "$INHERITED|$A|$B"`},
			env:  env("A", "1", "B", "two\nlines = #", "A", "2"),
			want: outcome{Started: true, Cause: exitedCause, Stdout: "from the image|2|two\nlines = #\n"},
		},
		"overrides the environment of the image": {
			argv: []string{"/bin/sh", "-c", `echo "$INHERITED"`},
			env:  env("INHERITED", ""),
			want: outcome{Started: true, Cause: exitedCause, Stdout: "\n"},
		},
		"reads nothing from standard input": {
			argv: []string{"cat"},
			want: outcome{Started: true, Cause: exitedCause},
		},
		"runs in the working directory": {
			argv: []string{"pwd", "-P"}, dir: dir,
			want: outcome{Started: true, Cause: exitedCause, Stdout: dir + "\n"},
		},
		"finds the command in PATH of the execution": {
			argv: []string{"greet"}, env: env("PATH", dir),
			want: outcome{Started: true, Cause: exitedCause, Stdout: "hello from " + dir + "/greet\n"},
		},
		"finds the command in a relative element of PATH": {
			argv: []string{"greet"}, env: env("PATH", "/nowhere:."), dir: dir,
			want: outcome{Started: true, Cause: exitedCause, Stdout: "hello from " + dir + "/greet\n"},
		},
		"takes a relative command from the working directory": {
			argv: []string{"./greet"}, dir: dir,
			want: outcome{Started: true, Cause: exitedCause, Stdout: "hello from ./greet\n"},
		},
		"misses a command": {
			argv: []string{"nonesuch"}, env: env("PATH", "/bin"),
			want: outcome{Cause: notFoundCause, Code: 127, Message: `command "nonesuch" does not exist in PATH "/bin"`},
		},
		"misses a command with a path": {
			argv: []string{"/no/such/command"},
			want: outcome{Cause: notFoundCause, Code: 127, Message: `command "/no/such/command" does not exist`},
		},
		"misses the interpreter of a script": {
			argv: []string{orphan},
			want: outcome{Cause: notFoundCause, Code: 127,
				Message: `command "` + orphan + `": its interpreter "/no/such/interpreter" does not exist`},
		},
		"cannot execute a file without the permission": {
			argv: []string{plain},
			want: outcome{Cause: notFoundCause, Code: 126,
				Message: `command "` + plain + `" cannot be executed: permission denied`},
		},
		"cannot execute a file in PATH without the permission": {
			argv: []string{"plain"}, env: env("PATH", dir),
			want: outcome{Cause: notFoundCause, Code: 126,
				Message: `command "plain" cannot be executed: ` + plain + ` is not executable`},
		},
		"cannot execute what is no program": {
			argv: []string{garbage},
			want: outcome{Cause: notFoundCause, Code: 126,
				Message: `command "` + garbage + `" cannot be executed: exec format error`},
		},
		"cannot execute a directory": {
			argv: []string{dir},
			want: outcome{Cause: notFoundCause, Code: 126,
				Message: `command "` + dir + `" cannot be executed: permission denied`},
		},
		"misses the working directory": {
			argv: []string{"true"}, dir: "/no/such/dir",
			want: outcome{Cause: failedCause, Code: 1, Message: `working directory "/no/such/dir": no such file or directory`},
		},
		"refuses a file as working directory": {
			argv: []string{"true"}, dir: plain,
			want: outcome{Cause: failedCause, Code: 1, Message: `working directory "` + plain + `" is not a directory`},
		},
		"refuses a relative working directory": {
			argv: []string{"true"}, dir: "tmp",
			want: outcome{Cause: failedCause, Code: 1, Message: `working directory "tmp" is not an absolute path`},
		},
		"refuses an empty command line": {
			want: outcome{Cause: failedCause, Code: 1, Message: "the command line is empty"},
		},
		"has an argument that is too long for the kernel": {
			argv: []string{"true", strings.Repeat("a", 200<<10)}, env: env("PATH", "/bin"),
			want: outcome{Cause: failedCause, Code: 1, Message: `starting "/bin/true": argument list too long`},
		},
		"refuses a NUL in an argument": {
			argv: []string{"echo", "a\x00b"},
			want: outcome{Cause: failedCause, Code: 1, Message: `argument "a\x00b" holds a NUL byte`},
		},
		"refuses a NUL in a variable": {
			argv: []string{"true"}, env: env("A", "a\x00b"),
			want: outcome{Cause: failedCause, Code: 1, Message: `environment variable "A" holds a NUL byte`},
		},
	}
	r, _ := start(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r.execute(t, &runtimev1.Execute{ExecutionId: name, Argv: c.argv, Env: c.env, WorkingDirectory: c.dir})
			if diff := cmp.Diff(c.want, outcomeOf(r.awaitExited(t, name))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheEnvironmentOfAProcessIsSane(t *testing.T) {
	cases := map[string]struct {
		script string
		want   string
	}{
		"has only the standard streams": {script: "ls /proc/$$/fd | tr '\\n' ' '", want: "0 1 2 "},
		"has umask 022":                 {script: "umask", want: "0022\n"},
		"ignores and blocks no signal": {
			// Signals 32 and 33 belong to the C library, whose posix_spawn leaves them ignored in what it starts.
			script: `for field in SigBlk SigIgn; do
				mask=$(sed -n "s/^$field:[[:space:]]*//p" /proc/self/status); echo "$field $((0x$mask & ~0x180000000))"; done`,
			want: "SigBlk 0\nSigIgn 0\n",
		},
		"leads its own session and process group": {
			script: `read -r pid name state parent group session rest </proc/$$/stat; [ $group = $$ ] && [ $session = $$ ] && echo yes`,
			want:   "yes\n",
		},
		"has standard input at its end": {script: "readlink /proc/$$/fd/0", want: "/dev/null\n"},
	}
	r := newRuntimed(t, filepath.Join(t.TempDir(), "runtimed.sock"))
	startCommand(t, "/bin/sh", "-c", `trap "" HUP INT QUIT PIPE USR1 CHLD TSTP; umask 077; exec 7</ 8>/dev/null; exec "$@"`,
		"sh", binary, "serve", "--socket="+r.socket)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r.script(t, name, c.script)
			want := outcome{Started: true, Cause: exitedCause, Stdout: c.want}
			if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, name))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEnvironmentThatIsNoText(t *testing.T) {
	r := newRuntimed(t, filepath.Join(t.TempDir(), "runtimed.sock"))
	startCommand(t, "env", "BAD=\xff", "BAD\xff=1", "GOOD=yes", binary, "serve", "--socket="+r.socket)
	r.script(t, "x", "echo ${BAD-unset} $GOOD")
	want := outcome{Started: true, Cause: exitedCause, Stdout: "unset yes\n"}
	if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, "x"))); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}
