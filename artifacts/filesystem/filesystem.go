// Package filesystem keeps artifacts in a directory of a volume that several processes of one user may share.
//
// Beside what package artifacts says, a Run's directory holds unfinished/, where content is written before it gets its name.
package filesystem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/beneath"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

// Modes of what the store makes.
const (
	directoryMode = 0o700
	fileMode      = 0o600
)

// Store keeps artifacts in a directory. It opens the directory for each call: a volume may come and go.
type Store struct{ directory string }

var _ artifacts.Store = (*Store)(nil)

// New returns the store in an existing directory. It does not look whether it is there.
func New(directory string) *Store { return &Store{directory: directory} }

// Claim writes owner.json of a Run, and makes its directory.
func (s *Store) Claim(ctx context.Context, run types.UID, owner artifacts.Owner) error {
	doing := fmt.Sprintf("claiming the artifacts of Run %s", run)
	if err := artifacts.CheckRun(run); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	return failure(doing, s.claim(ctx, run, owner))
}

// Owner reads owner.json of a Run.
func (s *Store) Owner(_ context.Context, run types.UID) (artifacts.Owner, error) {
	doing := fmt.Sprintf("reading the owner of Run %s", run)
	if err := artifacts.CheckRun(run); err != nil {
		return artifacts.Owner{}, fmt.Errorf("%s: %w", doing, err)
	}
	at, err := s.openRun(run)
	if err != nil {
		return artifacts.Owner{}, missing(doing, err, artifacts.ErrNotFound)
	}
	defer at.Close()
	claim, err := readClaim(at, run)
	if err != nil {
		return artifacts.Owner{}, missing(doing, err, artifacts.ErrNotFound)
	}
	return claim.Owner, nil
}

// Put writes content below unfinished, and gives it its name when all of it is on the disk.
func (s *Store) Put(ctx context.Context, object artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error) {
	doing := fmt.Sprintf("storing artifact %q", object.Name)
	if err := artifacts.CheckObject(object); err != nil {
		return corev1alpha1.ArtifactRef{}, fmt.Errorf("storing an artifact: %w", err)
	}
	at, err := s.openRun(object.Run)
	if err != nil {
		return corev1alpha1.ArtifactRef{}, missing(doing, err, artifacts.ErrUnclaimed)
	}
	defer at.Close()
	if _, err := at.Lstat(artifacts.OwnerFile); err != nil {
		return corev1alpha1.ArtifactRef{}, missing(doing, absent(err), artifacts.ErrUnclaimed)
	}
	written, err := write(ctx, at, content, object.MaxBytes)
	if err == nil {
		err = written.publish(at, artifacts.ContentDirectory, object.Name)
	}
	if err != nil {
		return corev1alpha1.ArtifactRef{}, missing(doing, err, artifacts.ErrUnclaimed)
	}
	return corev1alpha1.ArtifactRef{
		Name: object.Name, Driver: corev1alpha1.ArtifactDriverFilesystem, Type: object.Type,
		Location: corev1alpha1.ArtifactLocation{
			Filesystem: &corev1alpha1.FilesystemLocation{Path: artifacts.Path(object.Run, object.Name)},
		},
		SizeBytes: written.size, Digest: written.digest, CreatedAt: &written.at,
	}, nil
}

// Open reads an artifact.
func (s *Store) Open(ctx context.Context, ref corev1alpha1.ArtifactRef) (io.ReadCloser, error) {
	doing := fmt.Sprintf("opening artifact %q", ref.Name)
	if ref.Location.Filesystem == nil {
		return nil, fmt.Errorf("%s: an artifact of driver %q: %w", doing, ref.Driver, artifacts.ErrOutside)
	}
	rel := ref.Location.Filesystem.Path
	if err := artifacts.CheckRef(ref, corev1alpha1.ArtifactDriverFilesystem, rel); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	run, name, err := artifacts.ParsePath(rel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	f, err := s.openContent(run, name)
	if err != nil {
		return nil, missing(doing, err, artifacts.ErrNotFound)
	}
	return stream.Verify(ctx, reading{file: f, doing: doing}, ref), nil
}

func (s *Store) openContent(run types.UID, name string) (*os.File, error) {
	at, err := s.openRun(run)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	in, err := beneath.Directory(at, artifacts.ContentDirectory)
	if err != nil {
		return nil, absent(err)
	}
	defer in.Close()
	f, _, err := beneath.File(in, name)
	return f, absent(err)
}

// Remove removes the directory of a Run, its owner.json last.
func (s *Store) Remove(ctx context.Context, run types.UID) error {
	doing := fmt.Sprintf("removing the artifacts of Run %s", run)
	if err := artifacts.CheckRun(run); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err := s.remove(ctx, run)
	if errors.Is(err, errMissing) {
		return nil
	}
	return failure(doing, err)
}

// Claims yields the Runs that have a directory.
func (s *Store) Claims(ctx context.Context) iter.Seq2[artifacts.Claim, error] {
	return func(yield func(artifacts.Claim, error) bool) {
		err := s.walk(ctx, yield)
		if err != nil && !errors.Is(err, errMissing) {
			yield(artifacts.Claim{}, failure("listing the artifact store", err))
		}
	}
}

// Check writes a file, and removes it again.
func (s *Store) Check(ctx context.Context) error {
	const doing = "checking the artifact store"
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	return failure(doing, s.check())
}

func (s *Store) check() error {
	root, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := makeDirectory(root, artifacts.RunsDirectory); err != nil {
		return err
	}
	name := ".check-" + rand.Text()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, os.Getpagesize())) // an empty file needs no room
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), root.Remove(name))
}
