// Package controlplane provides the binaries of a real Kubernetes control plane (etcd, kube-apiserver and
// kube-controller-manager), and on demand those of a node, without downloading a release: they are taken from
// $KUBEBUILDER_ASSETS, else from a cache that all callers on the machine share, else built once from pinned Go modules.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/utils/clock"
)

// AssetsVariable is the environment variable that names a directory of ready binaries, as in kubebuilder's envtest.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// EnsureOptions says what Ensure has to provide and how it reports. The zero value of every field but Environ asks for all
// binaries, silently.
type EnsureOptions struct {
	// Progress receives lines for people while something takes longer than a moment. Default: nothing is written.
	Progress io.Writer
	// Binaries are the programs that must be there. Default: all of them.
	Binaries []Binary
	// CacheDir is where builds are kept. Default: kruntimes/controlplane in the user's cache directory.
	CacheDir string
	// Environ is the environment to look variables up in, and that of the Go command, as os.Environ returns it. Required.
	Environ []string
	// Clock tells the time. Default: the real one.
	Clock clock.WithTicker
}

func (o *EnsureOptions) complete() error {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if len(o.Binaries) == 0 {
		o.Binaries = All()
	}
	if o.Environ == nil {
		return errors.New("no environment to look variables up in")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}

// completeCache chooses the cache where the caller did not.
func (o *EnsureOptions) completeCache() error {
	if o.CacheDir != "" {
		return nil
	}
	cache, err := userCacheDir(o.Environ)
	if err != nil {
		return err
	}
	o.CacheDir = filepath.Join(cache, "kruntimes", "controlplane")
	return nil
}

// userCacheDir returns the cache directory that the XDG base directory specification asks for.
func userCacheDir(environ []string) (string, error) {
	if cache := lookupEnv(environ, "XDG_CACHE_HOME"); filepath.IsAbs(cache) {
		return cache, nil
	}
	if home := lookupEnv(environ, "HOME"); home != "" {
		return filepath.Join(home, ".cache"), nil
	}
	return "", fmt.Errorf("finding a directory for the cache: none of %s, XDG_CACHE_HOME and HOME is set", AssetsVariable)
}

// Ensure returns a directory that holds the asked binaries. It builds what is missing, which takes minutes the first
// time and a moment from then on; two callers at once build only once. Cancelling ctx ends a build and leaves nothing
// half-made behind.
func Ensure(ctx context.Context, options EnsureOptions) (string, error) {
	if err := options.complete(); err != nil {
		return "", err
	}
	if assets := lookupEnv(options.Environ, AssetsVariable); assets != "" {
		return checkAssets(assets, options.Binaries)
	}
	return ensureCached(ctx, options)
}

// EnsurePaths returns the path of each asked binary. Unlike Ensure it takes from the cache what $KUBEBUILDER_ASSETS lacks,
// because no download of envtest holds the programs of a node.
func EnsurePaths(ctx context.Context, options EnsureOptions) (map[Binary]string, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	paths := make(map[Binary]string, len(options.Binaries))
	add := func(dir string, binaries []Binary) {
		for _, b := range binaries {
			paths[b] = filepath.Join(dir, string(b))
		}
	}
	if assets := lookupEnv(options.Environ, AssetsVariable); assets != "" {
		dir, err := filepath.Abs(assets)
		if err != nil {
			return nil, fmt.Errorf("resolving %s=%s: %w", AssetsVariable, assets, err)
		}
		add(dir, options.Binaries)
		if options.Binaries = missing(dir, options.Binaries); len(options.Binaries) == 0 {
			return paths, nil
		}
	}
	dir, err := ensureCached(ctx, options)
	if err != nil {
		return nil, err
	}
	add(dir, options.Binaries)
	return paths, nil
}

func ensureCached(ctx context.Context, options EnsureOptions) (string, error) {
	if err := options.completeCache(); err != nil {
		return "", err
	}
	dir := filepath.Join(options.CacheDir, pinsHash())
	if len(missing(dir, options.Binaries)) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(options.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache of control plane binaries: %w", err)
	}
	unlock, err := lock(ctx, dir+".lock", &options)
	if err != nil {
		return "", err
	}
	defer unlock()
	todo := missing(dir, options.Binaries)
	if len(todo) == 0 {
		return dir, nil
	}
	if err := build(ctx, dir, todo, &options); err != nil {
		return "", err
	}
	return dir, nil
}

// checkAssets refuses a directory of the user's that lacks a program, naming what is missing.
func checkAssets(dir string, binaries []Binary) (string, error) {
	lacking := missing(dir, binaries)
	if len(lacking) == 0 {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("resolving %s=%s: %w", AssetsVariable, dir, err)
		}
		return absolute, nil
	}
	names := make([]string, len(lacking))
	for i, b := range lacking {
		names[i] = string(b)
	}
	return "", fmt.Errorf("%s=%s holds no executable %s: put it there, or unset %s to have it built from the pinned modules",
		AssetsVariable, dir, strings.Join(names, ", "), AssetsVariable)
}

// missing returns the programs that are not in dir as executable files.
func missing(dir string, binaries []Binary) []Binary {
	var lacking []Binary
	for _, b := range binaries {
		info, err := os.Stat(filepath.Join(dir, string(b)))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			lacking = append(lacking, b)
		}
	}
	return lacking
}

// lookupEnv returns the last value of name, as a process started with environ would see it.
func lookupEnv(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if v, found := strings.CutPrefix(entry, name+"="); found {
			value = v
		}
	}
	return value
}

// errLocked says that somebody else holds the lock.
var errLocked = errors.New("locked by another process")
