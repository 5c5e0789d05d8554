package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/archive"
	"kruntimes.io/kruntimes/runtimed/decision"
)

// Collection is what a script has left.
type Collection struct {
	// Run is the UID of the Run, Owner says whose it is.
	Run   types.UID
	Owner artifacts.Owner
	// Directory holds what is to be stored, Objects says what of it.
	Directory *os.Root
	Objects   []decision.ArtifactObject
	// Fence returns an error when the Run is not this runtimed's any more. It is asked before anything is written.
	Fence func(ctx context.Context) error
}

// Collect stores the objects one after the other and returns their addresses. Those that were stored before one that fails
// stay until the Run is deleted, or stores others under their names; nothing refers to them.
func (m *Mover) Collect(ctx context.Context, c Collection) ([]corev1alpha1.ArtifactRef, error) {
	refs := make([]corev1alpha1.ArtifactRef, 0, len(c.Objects))
	for i, object := range c.Objects {
		if err := c.Fence(ctx); err != nil {
			return nil, err
		}
		if i == 0 {
			_, err := try(ctx, m, "claiming the artifacts", func(ctx context.Context, _ *meter) (struct{}, error) {
				return struct{}{}, m.Store.Claim(ctx, c.Run, c.Owner)
			})
			if err != nil {
				return nil, err
			}
		}
		ref, err := m.upload(ctx, c, object)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func (m *Mover) upload(ctx context.Context, c Collection, object decision.ArtifactObject) (corev1alpha1.ArtifactRef, error) {
	put := m.putFile
	if object.Type == corev1alpha1.ArtifactDirectory {
		put = m.putDirectory
	}
	target := artifacts.Object{Run: c.Run, Name: object.Name, Type: object.Type, MaxBytes: m.Limits.MaxBytes}
	doing := fmt.Sprintf("storing artifact %q", object.Name)
	return try(ctx, m, doing, func(ctx context.Context, moved *meter) (corev1alpha1.ArtifactRef, error) {
		ref, err := put(ctx, c.Directory, target, moved)
		if errors.Is(err, artifacts.ErrTooLarge) {
			err = local(err)
		}
		return ref, err
	})
}

func (m *Mover) putFile(ctx context.Context, in *os.Root, target artifacts.Object, moved *meter) (corev1alpha1.ArtifactRef, error) {
	f, _, err := archive.OpenFile(in, target.Name)
	if err != nil {
		return corev1alpha1.ArtifactRef{}, local(fmt.Errorf("artifact %q %w", target.Name, err))
	}
	ref, err := m.Store.Put(ctx, target, moved.reader(content{f}))
	return ref, errors.Join(err, local(f.Close()))
}

// putDirectory packs the directory while it is stored: nothing of it is kept beside the two.
func (m *Mover) putDirectory(ctx context.Context, in *os.Root, target artifacts.Object, moved *meter) (corev1alpha1.ArtifactRef, error) {
	dir, err := archive.OpenDirectory(in, target.Name)
	if err == nil {
		err = checkSize(ctx, dir, target.MaxBytes)
	}
	if err != nil {
		if dir != nil {
			_ = dir.Close() // nothing was written to it
		}
		return corev1alpha1.ArtifactRef{}, local(fmt.Errorf("artifact %q %w", target.Name, err))
	}
	packed, packing := io.Pipe()
	ended := make(chan struct{})
	go func() { // ends with the archive, or with the pipe
		defer close(ended)
		err := archive.Write(ctx, packing, dir, archive.WriteOptions{MaxEntries: maxEntries})
		_ = packing.CloseWithError(err) // never fails
	}()
	ref, err := m.Store.Put(ctx, target, moved.reader(content{packed}))
	_ = packed.CloseWithError(errCut) // never fails
	<-ended
	return ref, errors.Join(err, local(dir.Close()))
}

// checkSize refuses a directory whose files could not be unpacked again within the limit. What the walk cannot read, or
// what there is too much of, is refused when it is packed.
func checkSize(ctx context.Context, dir *os.Root, limit int64) error {
	var size int64
	left := maxEntries
	return fs.WalkDir(dir.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if left--; left < 0 || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil // it is gone: see above
		}
		if size += info.Size(); size > limit {
			return fmt.Errorf("has files of more than %d bytes together", limit)
		}
		return nil
	})
}
