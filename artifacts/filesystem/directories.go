package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/beneath"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

// batch is how many names of a directory are held at a time.
const batch = 256

// errMissing tells that the directory of the store is there, and the part of it that was looked for is not.
var errMissing = errors.New("there is no such part of the store")

// absent returns errMissing for what is not there.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errMissing
	}
	return err
}

// open opens the directory of the store, which may itself be behind a link: whoever configures it says where it is.
func (s *Store) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.directory)
	if err != nil {
		return nil, &rootError{directory: s.directory, err: err}
	}
	return root, nil
}

// openRuns opens the directory that holds the Runs. Errors: errMissing.
func (s *Store) openRuns() (*os.Root, error) {
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	runs, err := beneath.Directory(root, artifacts.RunsDirectory)
	return runs, absent(err)
}

// openRun opens the directory of a Run. Errors: errMissing.
func (s *Store) openRun(run types.UID) (*os.Root, error) {
	runs, err := s.openRuns()
	if err != nil {
		return nil, err
	}
	defer runs.Close()
	at, err := beneath.Directory(runs, string(run))
	return at, absent(err)
}

// makeRun opens the directory of a Run, and makes it.
func (s *Store) makeRun(run types.UID) (*os.Root, error) {
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := makeDirectory(root, artifacts.RunsDirectory); err != nil {
		return nil, err
	}
	runs, err := beneath.Directory(root, artifacts.RunsDirectory)
	if err != nil {
		return nil, err
	}
	defer runs.Close()
	if err := makeDirectory(runs, string(run)); err != nil {
		return nil, err
	}
	return beneath.Directory(runs, string(run))
}

// makeDirectory makes sure that a directory is there, and that it is none behind a link.
func makeDirectory(in *os.Root, name string) error {
	err := in.Mkdir(name, directoryMode)
	if err == nil {
		return syncDirectory(in, ".")
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := in.Lstat(name)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s: %w", name, &beneath.KindError{Mode: info.Mode()})
	}
	return err
}

// syncDirectory makes names last that were given in a directory. Not all file systems can, and those need not.
func syncDirectory(in *os.Root, name string) error {
	d, err := in.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// readClaim reads what owner.json says. Errors: errMissing.
func readClaim(at *os.Root, run types.UID) (artifacts.Claim, error) {
	f, info, err := beneath.File(at, artifacts.OwnerFile)
	if err != nil {
		return artifacts.Claim{}, absent(err)
	}
	defer f.Close()
	claim := artifacts.Claim{Run: run, Since: info.ModTime()}
	if claim.Owner, err = artifacts.ReadOwner(f); err != nil {
		return artifacts.Claim{}, err
	}
	return claim, nil
}

// walk yields the claims of all Runs. What is removed meanwhile is passed over, and so are names that no Run has.
func (s *Store) walk(ctx context.Context, yield func(artifacts.Claim, error) bool) error {
	runs, err := s.openRuns()
	if err != nil {
		return err
	}
	defer runs.Close()
	names, err := runs.Open(".")
	if err != nil {
		return err
	}
	defer names.Close()
	for {
		entries, err := names.ReadDir(batch)
		for _, e := range entries {
			if ctx.Err() != nil {
				return stream.Content(context.Cause(ctx))
			}
			run := types.UID(e.Name())
			if artifacts.CheckRun(run) != nil {
				continue
			}
			claim, err := claimOf(runs, run)
			if errors.Is(err, errMissing) {
				continue
			}
			if !yield(claim, failure(fmt.Sprintf("reading the owner of Run %s", run), err)) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// claimOf reads the claim of a Run. Errors: errMissing where there is no owner.json and nothing that is whole.
func claimOf(runs *os.Root, run types.UID) (artifacts.Claim, error) {
	at, err := beneath.Directory(runs, string(run))
	if err != nil {
		return artifacts.Claim{Run: run}, absent(err)
	}
	defer at.Close()
	claim, err := readClaim(at, run)
	if err == nil {
		return claim, nil
	}
	if _, found := at.Lstat(artifacts.ContentDirectory); errors.Is(err, errMissing) && found == nil {
		err = artifacts.ErrUnclaimed
	}
	return artifacts.Claim{Run: run}, err
}

// remove removes everything of a Run, owner.json last. Errors: errMissing where there is nothing.
func (s *Store) remove(ctx context.Context, run types.UID) error {
	runs, err := s.openRuns()
	if err != nil {
		return err
	}
	defer runs.Close()
	at, err := beneath.Directory(runs, string(run))
	var other *beneath.KindError
	if errors.As(err, &other) {
		return absent(runs.Remove(string(run))) // whatever it is: not what is behind it
	}
	if err != nil {
		return absent(err)
	}
	defer at.Close()
	if err := empty(ctx, at); err != nil {
		return err
	}
	if err := at.Remove(artifacts.OwnerFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return absent(runs.Remove(string(run)))
}

// empty removes everything but owner.json.
func empty(ctx context.Context, at *os.Root) error {
	names, err := at.Open(".")
	if err != nil {
		return err
	}
	defer names.Close()
	entries, err := names.ReadDir(0)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return stream.Content(context.Cause(ctx))
		}
		if e.Name() == artifacts.OwnerFile {
			continue
		}
		if err := at.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
