// Package gitsource checks git repositories out for Runs.
//
// The work is done by a child process, runtimed executing itself again: it reads what a foreign server sends, so it may
// run out of memory or time, and it takes its memory with it when it ends.
//
//	Fetcher.Fetch --request, directory--> Serve: remote -> pack -> checkout
//	              <--------- answer -----
//
// The child speaks https and nothing else, takes the one commit that is asked for, and writes it below the directory
// that it was handed, by os.Root. Nothing of what a repository holds is executed: no hook, filter, attribute, submodule.
package gitsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Subcommand is the argument with which runtimed executes itself for a checkout.
const Subcommand = "fetch-git"

// Source is what is checked out.
type Source struct {
	// URL is the repository.
	URL string
	// Revision is a branch, tag or full commit id. Empty: the default branch.
	Revision string
}

// Limits bound a checkout. Zero fields get their default.
type Limits struct {
	// Bytes bounds what is written: what the server sends and the files of the commit together. Default: 512 MiB.
	Bytes int64
	// Files bounds the number of files and directories. Default: 100,000.
	Files int
	// Memory bounds the memory of the child process. Unit: bytes. Default: 512 MiB.
	Memory int64
}

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 512 << 20
	}
	if l.Files == 0 {
		l.Files = 100_000
	}
	if l.Memory == 0 {
		l.Memory = 512 << 20
	}
	return l
}

// Options configure a Fetcher. Zero fields get their default.
type Options struct {
	// Command starts the child process. Default: this executable with Subcommand.
	Command []string
	// Env is the environment of the child process, and all of it. See PassedVariables.
	Env []string
	// Timeout bounds one checkout. Default: 5 min.
	Timeout time.Duration
	// Parallel bounds how many child processes there are at once; further checkouts wait. Default: 4.
	Parallel int
	// Limits bound a checkout.
	Limits Limits
}

// PassedVariables names what the child process may know of runtimed's environment: how the network is reached, and whom
// it trusts.
func PassedVariables() []string {
	return []string{
		"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG",
	}
}

// Fetcher checks repositories out.
type Fetcher struct {
	opts  Options
	slots chan struct{}
}

// NewFetcher returns a Fetcher.
func NewFetcher(opts Options) *Fetcher {
	if len(opts.Command) == 0 {
		opts.Command = []string{"/proc/self/exe", Subcommand}
	}
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Minute
	}
	if opts.Parallel == 0 {
		opts.Parallel = 4
	}
	opts.Limits = opts.Limits.withDefaults()
	return &Fetcher{opts: opts, slots: make(chan struct{}, opts.Parallel)}
}

// Fetch checks source out into dir, an empty directory, and returns the commit. When it returns an error, dir may hold
// anything; no process works there any more. The error is for the person who wrote the Run.
func (f *Fetcher) Fetch(ctx context.Context, dir *os.File, source Source) (string, error) {
	if err := checkURL(source.URL); err != nil {
		return "", fmt.Errorf("could not use %s: %w", printable(shownURL(source.URL)), err)
	}
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-f.slots }()
	bounded, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	commit, err := f.runChild(bounded, dir, source)
	if err == nil {
		return commit, nil
	}
	if ctx.Err() == nil && bounded.Err() != nil {
		err = fmt.Errorf("not done after %s", f.opts.Timeout)
	}
	return "", fmt.Errorf("could not fetch %s: %w", describe(source), err)
}

// describe names source for a person.
func describe(source Source) string {
	if source.Revision == "" {
		return printable(source.URL)
	}
	return printable(source.URL) + " at " + printable(source.Revision)
}

// errTooLarge is the cause of all refusals for size.
var errTooLarge = errors.New("the repository is too large")
