package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/archive"
	"kruntimes.io/kruntimes/runtimed/opening"
	"kruntimes.io/kruntimes/runtimed/removal"
)

const (
	// incomingName is where an input grows in the private directory.
	incomingName = "input"
	// chunk is how much of a file is copied at a time. Unit: bytes.
	chunk = 1 << 20
	// reservedName is what no input may lie in.
	reservedName = ".kruntimes"
)

// Staging is what a script is to find.
type Staging struct {
	// NamespaceUID is the UID of the namespace to which every artifact must belong.
	NamespaceUID types.UID
	// Inputs are the artifacts and their paths.
	Inputs []corev1alpha1.ArtifactInput
	// Work is the working directory below which they are put.
	Work *os.Root
	// Private is a directory on the same file system in which they grow.
	Private *os.Root
}

// Stage puts the inputs into the working directory, one after the other. Each appears under its path only when it is
// complete and its digest is right: a file replaces a file, a directory is merged into one that is there; anything else
// that is in the way is an error that names it.
func (m *Mover) Stage(ctx context.Context, s Staging) error {
	for _, input := range s.Inputs {
		doing := fmt.Sprintf("reading artifact %q", input.Artifact.Name)
		_, err := try(ctx, m, doing, func(ctx context.Context, moved *meter) (struct{}, error) {
			return struct{}{}, m.stage(ctx, s, input, moved)
		})
		if err != nil {
			return fmt.Errorf("staging %q: %w", input.Path, err)
		}
	}
	return nil
}

func (m *Mover) stage(ctx context.Context, s Staging, input corev1alpha1.ArtifactInput, moved *meter) error {
	names, err := partsOf(input.Path)
	if err != nil {
		return local(err)
	}
	if err := removal.Remove(s.Private, incomingName); err != nil {
		return local(err)
	}
	content, err := m.open(ctx, s.NamespaceUID, input.Artifact)
	if err != nil {
		return err
	}
	receive := m.receiveFile
	if input.Artifact.Type == corev1alpha1.ArtifactDirectory {
		receive = m.receiveDirectory
	}
	err = receive(ctx, s.Private, content, moved)
	if err := errors.Join(err, local(content.Close())); err != nil {
		return errors.Join(err, local(removal.Remove(s.Private, incomingName)))
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), local(removal.Remove(s.Private, incomingName)))
	}
	if err := put(s.Private, incomingName, s.Work, names); err != nil {
		return local(errors.Join(err, removal.Remove(s.Private, incomingName)))
	}
	return nil
}

// partsOf are the names on the way to path. The API server has checked the path; this is what must not depend on that.
func partsOf(path string) ([]string, error) {
	names := strings.Split(path, "/")
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, 0) {
			return nil, errors.New("the path must be relative, without '..', '.' or empty parts")
		}
	}
	if names[0] == reservedName {
		return nil, fmt.Errorf("the path must not lie below %s, which is reserved", reservedName)
	}
	return names, nil
}

// open opens an artifact of the namespace.
func (m *Mover) open(ctx context.Context, namespaceUID types.UID, ref corev1alpha1.ArtifactRef) (io.ReadCloser, error) {
	content, err := OpenOwned(ctx, m.Store, namespaceUID, ref)
	if errors.Is(err, errForeign) {
		err = local(err)
	}
	return content, err
}

// receiveFile writes content to the private directory.
func (m *Mover) receiveFile(_ context.Context, private *os.Root, content io.Reader, moved *meter) error {
	f, err := private.OpenFile(incomingName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return local(err)
	}
	err = artifacts.ErrNoFileCopy
	if c, ok := content.(artifacts.FileCopier); ok {
		err = copyFileBounded(f, c, m.Limits.MaxBytes, moved)
	}
	if errors.Is(err, artifacts.ErrNoFileCopy) {
		err = copyBounded(f, moved.reader(content), m.Limits.MaxBytes)
	}
	if err == nil {
		err = local(f.Chmod(0o644)) // whatever the umask says
	}
	return errors.Join(err, local(f.Close()))
}

// copyFileBounded copies all of from, which lies in a file of the store's.
func copyFileBounded(to *os.File, from artifacts.FileCopier, limit int64, moved *meter) error {
	var size int64
	err := from.CopyTo(to, func(n int64) error {
		if size += n; size > limit {
			return errBeyond(limit)
		}
		return moved.count(n)
	})
	if errors.As(err, new(*artifacts.WriteError)) {
		return local(err)
	}
	return err
}

func errBeyond(limit int64) error { return local(fmt.Errorf("it has more than %d bytes", limit)) }

// copyBounded copies all of from, which is the store's.
func copyBounded(to io.Writer, from io.Reader, limit int64) error {
	n, err := io.CopyBuffer(localWriter{to}, io.LimitReader(from, limit+1), make([]byte, chunk))
	if err == nil && n > limit {
		err = errBeyond(limit)
	}
	return err
}

// localWriter is a writer whose errors are not the store's.
type localWriter struct{ to io.Writer }

func (w localWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	return n, local(err)
}

// receiveDirectory unpacks content in the private directory.
func (m *Mover) receiveDirectory(ctx context.Context, private *os.Root, content io.Reader, moved *meter) error {
	if err := private.Mkdir(incomingName, 0o755); err != nil {
		return local(err)
	}
	dir, err := opening.Directories(private, incomingName)
	if err != nil {
		return local(err)
	}
	from := &remembering{from: moved.reader(content)}
	err = archive.Extract(ctx, from, dir, archive.ExtractOptions{MaxBytes: m.Limits.MaxBytes, MaxEntries: maxEntries})
	if err == nil {
		err = local(dir.Chmod(".", 0o755)) // whatever the umask says
	}
	if err != nil && from.err == nil {
		err = local(err)
	}
	return errors.Join(err, local(dir.Close()))
}

// remembering keeps the error of a reader, which tells whose fault it is when what is read cannot be used.
type remembering struct {
	from io.Reader
	err  error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// put gives what lies under name in private its path in work.
func put(private *os.Root, name string, work *os.Root, names []string) error {
	parent, err := opening.MakeDirectories(work, names[:len(names)-1]...)
	if err != nil {
		return err
	}
	if parent != work {
		defer func() { _ = parent.Close() }() // nothing was written to it
	}
	move := merge{from: private, into: parent}
	if err := move.check(name, names[len(names)-1], strings.Join(names, "/")); err != nil {
		return err
	}
	return move.move(name, names[len(names)-1])
}

// exists looks what lies under name, without following it; nil when there is nothing.
func exists(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}
