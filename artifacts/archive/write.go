package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

// WriteOptions bound what is archived.
type WriteOptions struct {
	// MaxEntries bounds the files and directories. Default: DefaultMaxEntries.
	MaxEntries int
}

// Write archives what dir holds, with permissions and times of change, without owners. It refuses by name what is not
// kept: links, files with several names, devices and the like, names that differ only in case, and files that change.
// The owner of the files may go on changing them: nothing is read that lies elsewhere. Errors: EntryError, with one of this
// package's where it is about the tree; ErrTooMany; the cause where ctx ends.
func Write(ctx context.Context, w io.Writer, dir *os.Root, opts WriteOptions) error {
	packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return fmt.Errorf("starting the compression: %w", err)
	}
	a := &writer{ctx: ctx, tar: tar.NewWriter(packed), entries: newEntries(opts.MaxEntries), buffer: make([]byte, chunk)}
	if err := a.directory(dir, "", 0); err != nil {
		packed.Reset(nil) // ends what compresses beside, without writing
		return err
	}
	if err := a.tar.Close(); err != nil {
		packed.Reset(nil)
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

type writer struct {
	ctx     context.Context
	tar     *tar.Writer
	entries *entries
	buffer  []byte
}

// directory archives what lies in dir, whose path is at.
func (a *writer) directory(dir *os.Root, at string, depth int) error {
	if depth > MaxDepth {
		return &EntryError{Path: at, Err: ErrTooDeep}
	}
	sorted, err := a.list(dir)
	if err != nil {
		if errors.Is(err, ErrTooMany) {
			return err
		}
		return &EntryError{Path: at, Err: err}
	}
	seen := names{}
	for _, name := range sorted {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		path := below(at, name)
		if err := seen.add(name); err != nil {
			return &EntryError{Path: path, Err: err}
		}
		if err := a.entry(dir, name, path, depth); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in dir, sorted, and takes them from what is allowed.
func (a *writer) list(dir *os.Root) ([]string, error) {
	open, err := dir.Open(".")
	if err != nil {
		return nil, cause(err)
	}
	defer open.Close()
	var sorted []string
	for {
		some, err := open.Readdirnames(1024)
		if err := a.entries.take(len(some)); err != nil {
			return nil, err
		}
		sorted = append(sorted, some...)
		if err == io.EOF {
			slices.Sort(sorted)
			return sorted, nil
		}
		if err != nil {
			return nil, cause(err)
		}
	}
}

func (a *writer) entry(dir *os.Root, name, path string, depth int) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return &EntryError{Path: path, Err: vanished(err)}
	}
	if info.IsDir() {
		return a.subdirectory(dir, name, path, depth)
	}
	return a.file(dir, name, path)
}

func (a *writer) subdirectory(dir *os.Root, name, path string, depth int) error {
	sub, err := beneath.Directory(dir, name)
	if err != nil {
		return &EntryError{Path: path, Err: vanished(err)}
	}
	defer sub.Close()
	info, err := sub.Stat(".")
	if err != nil {
		return &EntryError{Path: path, Err: cause(err)}
	}
	if err := a.header(info, tar.TypeDir, path+"/"); err != nil {
		return err
	}
	return a.directory(sub, path, depth+1)
}

func (a *writer) file(dir *os.Root, name, path string) error {
	f, info, err := OpenFile(dir, name)
	if err != nil {
		return &EntryError{Path: path, Err: err}
	}
	defer f.Close()
	if err := a.header(info, tar.TypeReg, path); err != nil {
		return err
	}
	from := &source{ctx: a.ctx, reader: io.LimitReader(f, info.Size())}
	n, err := io.CopyBuffer(a.tar, from, a.buffer)
	if from.err != nil {
		return &EntryError{Path: path, Err: cause(from.err)}
	}
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	after, err := f.Stat()
	if err != nil {
		return &EntryError{Path: path, Err: cause(err)}
	}
	if n != info.Size() || after.Size() != n || !after.ModTime().Equal(info.ModTime()) {
		return &EntryError{Path: path, Err: ErrChanged}
	}
	return nil
}

func (a *writer) header(info fs.FileInfo, kind byte, name string) error {
	h := &tar.Header{
		Typeflag: kind, Name: name, Mode: int64(info.Mode() & permissions), ModTime: info.ModTime(), Format: tar.FormatPAX,
	}
	if kind == tar.TypeReg {
		h.Size = info.Size()
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// OpenFile opens the regular file name, which lies in dir, for reading, as Write does: never through a link, without waiting,
// and only what has no other name. The error goes on from the name of the file, as in EntryError.
func OpenFile(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, info, err := beneath.File(dir, name)
	if err != nil {
		return nil, nil, vanished(err)
	}
	if beneath.Links(info) > 1 {
		f.Close()
		return nil, nil, ErrHardLink
	}
	return f, info, nil
}

// OpenDirectory opens the directory name, which lies in dir, as Write does: never through a link. The error goes on from
// the name of the directory, as in EntryError.
func OpenDirectory(dir *os.Root, name string) (*os.Root, error) {
	sub, err := beneath.Directory(dir, name)
	if err != nil {
		return nil, vanished(err)
	}
	return sub, nil
}

// vanished tells what was not opened, where it was there when its directory was read.
func vanished(err error) error {
	var kind *beneath.KindError
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%w: %w", kind, ErrKind)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, beneath.ErrReplaced):
		return ErrChanged
	}
	return cause(err)
}

// cause returns what is wrong with a file, without its name: that is said before.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}

// below returns the path of a name in the directory at.
func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "/" + name
}

// source keeps the error of a reader apart from those of what it is copied to, and ends with the cause when ctx ends.
type source struct {
	ctx    context.Context
	reader io.Reader
	err    error
}

func (s *source) Read(p []byte) (n int, err error) {
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err = s.reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
