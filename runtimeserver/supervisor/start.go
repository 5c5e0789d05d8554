package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const (
	// Exit codes of a shell for a command that cannot be executed, and one that does not exist.
	codeNotExecutable = 126
	codeNotFound      = 127
	// codeNotStarted is the exit code where a command was not even tried.
	codeNotStarted = 1
	// maxInterpreterLine is how much of a script the kernel reads in search of its interpreter.
	maxInterpreterLine = 256
)

// startError says why a process could not be started, in the words of the contract.
type startError struct {
	cause   runtimev1.ExitCause
	code    int32
	message string
}

func (e *startError) Error() string { return e.message }

func startFailed(format string, args ...any) *startError {
	return &startError{
		cause:   runtimev1.ExitCause_EXIT_CAUSE_START_FAILED,
		code:    codeNotStarted,
		message: fmt.Sprintf(format, args...),
	}
}

func commandNotFound(code int32, format string, args ...any) *startError {
	return &startError{
		cause:   runtimev1.ExitCause_EXIT_CAUSE_COMMAND_NOT_FOUND,
		code:    code,
		message: fmt.Sprintf(format, args...),
	}
}

// start starts the process of an execution, in a session of its own. It is killed by the kernel when the calling
// thread ends, so that thread must live as long as the supervisor.
func start(spec *runtimev1.Execute, null, stdout, stderr int) (int, *startError) {
	env := make([]string, 0, len(spec.GetEnv()))
	for _, e := range spec.GetEnv() {
		env = append(env, e.GetName()+"="+e.GetValue())
	}
	if err := check(spec, env); err != nil {
		return 0, err
	}
	file, err := lookPath(spec.GetArgv()[0], pathIn(spec.GetEnv()), spec.GetWorkingDirectory())
	if err != nil {
		return 0, err
	}
	pid, forkErr := syscall.ForkExec(file, spec.GetArgv(), &syscall.ProcAttr{
		Dir:   spec.GetWorkingDirectory(),
		Env:   env,
		Files: []uintptr{uintptr(null), uintptr(stdout), uintptr(stderr)},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if forkErr != nil {
		return 0, explain(forkErr, file, spec.GetWorkingDirectory())
	}
	return pid, nil
}

// check refuses what fork and exec would refuse without saying which part of it was wrong.
func check(spec *runtimev1.Execute, env []string) *startError {
	if len(spec.GetArgv()) == 0 || spec.GetArgv()[0] == "" {
		return startFailed("the command line is empty")
	}
	for _, arg := range spec.GetArgv() {
		if strings.ContainsRune(arg, 0) {
			return startFailed("argument %q holds a NUL byte", arg)
		}
	}
	for i, entry := range env {
		if strings.ContainsRune(entry, 0) {
			return startFailed("environment variable %q holds a NUL byte", spec.GetEnv()[i].GetName())
		}
	}
	dir := spec.GetWorkingDirectory()
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return startFailed("working directory %q is not an absolute path", dir)
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return startFailed("working directory %q: %v", dir, errors.Unwrap(err))
	case !info.IsDir():
		return startFailed("working directory %q is not a directory", dir)
	}
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return startFailed("working directory %q: %v", dir, err)
	}
	return nil
}

// explain turns the error of an exec into words that name the file that is to blame.
func explain(err error, file, dir string) *startError {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		if _, statErr := os.Stat(path); statErr != nil {
			return commandNotFound(codeNotFound, "command %q does not exist", file)
		}
		if interpreter := interpreterOf(path); interpreter != "" {
			return commandNotFound(codeNotFound, "command %q: its interpreter %q does not exist", file, interpreter)
		}
		return commandNotFound(codeNotFound, "command %q: the program loader that it asks for does not exist", file)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOEXEC),
		errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELIBBAD):
		return commandNotFound(codeNotExecutable, "command %q cannot be executed: %v", file, err)
	default:
		return startFailed("starting %q: %v", file, err)
	}
}

// interpreterOf returns the interpreter that the first line of a script names, or nothing.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	line, _ := bufio.NewReaderSize(f, maxInterpreterLine).ReadSlice('\n')
	rest, isScript := strings.CutPrefix(string(line), "#!")
	fields := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
	if !isScript || len(fields) == 0 {
		return ""
	}
	return fields[0]
}
