package supervisor

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// defaultPath is searched when the environment of an execution has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pathIn returns the value of PATH in env; the last entry wins.
func pathIn(env []*runtimev1.EnvVar) string {
	path := defaultPath
	for _, e := range env {
		if e.GetName() == "PATH" {
			path = e.GetValue()
		}
	}
	return path
}

// lookPath finds the file that name stands for: name itself when it holds a slash, else the first executable file of
// that name in path. Relative and empty elements of path count from dir, as they would once the process runs there.
func lookPath(name, path, dir string) (string, *startError) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	refused := ""
	for _, element := range filepath.SplitList(path) {
		if !filepath.IsAbs(element) {
			element = filepath.Join(dir, element)
		}
		file := filepath.Join(element, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
		refused = file
	}
	if refused != "" {
		return "", commandNotFound(codeNotExecutable, "command %q cannot be executed: %s is not executable", name, refused)
	}
	return "", commandNotFound(codeNotFound, "command %q does not exist in PATH %q", name, path)
}
