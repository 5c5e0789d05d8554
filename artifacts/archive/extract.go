package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

// maxHeader is what an entry takes in an archive beside the content of the file, at most. Unit: bytes.
const maxHeader = 8 << 10

// ExtractOptions bound what is unpacked.
type ExtractOptions struct {
	// MaxBytes bounds the content of all files together. Zero: no bound. Unit: bytes.
	MaxBytes int64
	// MaxEntries bounds the files and directories. Default: DefaultMaxEntries.
	MaxEntries int
}

// Extract unpacks an archive into root and reads r to its end, so that a reader that checks a digest there is heard. Files
// that are there are replaced, directories are added to; nothing is written through links, and nothing outside of root. It
// trusts nothing in the archive. What was unpacked before an error stays. Errors: EntryError, with one of this package's;
// ErrTooLarge, ErrTooMany, ErrFormat; the cause where ctx ends; those of r.
func Extract(ctx context.Context, r io.Reader, root *os.Root, opts ExtractOptions) error {
	from := &source{ctx: ctx, reader: r}
	// Without concurrency the decoder reads only when it is read from.
	unpacked, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(2*window),
		zstd.WithDecoderLowmem(true))
	if err == nil {
		defer unpacked.Close()
		e := &extractor{entries: newEntries(opts.MaxEntries), max: opts.MaxBytes, buffer: make([]byte, chunk)}
		e.stream = &limited{reader: unpacked, max: e.maxStream()}
		e.tar = tar.NewReader(e.stream)
		err = e.all(root)
	}
	if from.err != nil { // before whatever it has led to
		return fmt.Errorf("reading the archive: %w", from.err)
	}
	return err
}

// extractor unpacks entry by entry.
type extractor struct {
	entries *entries
	max     int64
	written int64
	stream  *limited
	tar     *tar.Reader
	buffer  []byte
	// levels are the directories that are open, from the root to that of the last entry.
	levels []*level
}

// level is a directory that entries go into.
type level struct {
	root *os.Root
	path string
	seen names
	// mode and changed are set when the directory is left.
	mode    fs.FileMode
	changed time.Time
}

func (e *extractor) all(root *os.Root) error {
	e.levels = []*level{{root: root, seen: names{}}}
	defer func() {
		for _, l := range e.levels[1:] {
			l.root.Close()
		}
	}()
	for {
		h, err := e.tar.Next()
		if errors.Is(err, io.EOF) && e.stream.read > 0 {
			break
		}
		if err != nil {
			return malformed(err)
		}
		if err := e.entries.take(1); err != nil {
			return err
		}
		if err := e.entry(h); err != nil {
			return err
		}
	}
	if err := e.leave(""); err != nil {
		return err
	}
	n, err := io.CopyBuffer(io.Discard, e.stream, e.buffer)
	if err != nil {
		return malformed(err)
	}
	if n > 0 {
		return fmt.Errorf("%w: %d bytes after its end", ErrFormat, n)
	}
	return nil
}

func malformed(err error) error {
	if errors.Is(err, ErrTooLarge) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// entry unpacks what h announces.
func (e *extractor) entry(h *tar.Header) error {
	at, isDir := h.Name, h.Typeflag == tar.TypeDir
	if isDir {
		at = strings.TrimSuffix(at, "/")
	}
	if !isDir && h.Typeflag != tar.TypeReg {
		return &EntryError{Path: at, Err: fmt.Errorf("is %s: %w", kind(h.Typeflag), ErrKind)}
	}
	for record := range h.PAXRecords {
		if record != "path" && record != "mtime" && record != "size" {
			return &EntryError{Path: at, Err: fmt.Errorf("has the record %q: %w", record, ErrFormat)}
		}
	}
	parent, name := path.Split(at)
	if path.IsAbs(at) {
		return &EntryError{Path: at, Err: fmt.Errorf("%w: it is absolute", ErrName)}
	}
	if err := e.leave(strings.TrimSuffix(parent, "/")); err != nil {
		return err
	}
	in := e.levels[len(e.levels)-1]
	if below(in.path, name) != at {
		return &EntryError{Path: at, Err: fmt.Errorf("%w: it does not lie in the directory before it", ErrName)}
	}
	err := in.seen.add(name)
	switch {
	case err != nil:
	case isDir:
		err = e.enter(in, name, at, h)
	default:
		err = e.file(in, name, h)
	}
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return &EntryError{Path: at, Err: err}
	}
	return err
}

// kind says in words what an entry is that is not kept.
func kind(flag byte) string {
	switch flag {
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a FIFO"
	}
	return fmt.Sprintf("of the kind %q", flag)
}

// enter makes a directory and goes into it.
func (e *extractor) enter(in *level, name, at string, h *tar.Header) error {
	if len(e.levels) > MaxDepth {
		return ErrTooDeep
	}
	err := in.root.Mkdir(name, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return notMade(err)
	}
	sub, err := beneath.Directory(in.root, name)
	var other *beneath.KindError
	if errors.As(err, &other) {
		return fmt.Errorf("%w: there %w", ErrExists, other)
	}
	if err != nil {
		return notMade(err)
	}
	e.levels = append(e.levels, &level{
		root: sub, path: at, seen: names{}, mode: fs.FileMode(h.Mode & permissions), changed: h.ModTime,
	})
	return notMade(sub.Chmod(".", 0o700)) // one that was there may have been read-only
}

// leave goes up until the directory at, or the root. A directory gets its mode and its time only now, since both would not
// last or be in the way.
func (e *extractor) leave(at string) error {
	for len(e.levels) > 1 {
		last := e.levels[len(e.levels)-1]
		if last.path == at {
			return nil
		}
		err := last.root.Chmod(".", last.mode)
		if err == nil {
			err = last.root.Chtimes(".", last.changed, last.changed)
		}
		last.root.Close()
		e.levels = e.levels[:len(e.levels)-1]
		if err != nil {
			return &EntryError{Path: last.path, Err: notMade(err)}
		}
	}
	return nil
}

// file unpacks a regular file.
func (e *extractor) file(in *level, name string, h *tar.Header) error {
	if e.max > 0 && h.Size > e.max-e.written {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, e.max)
	}
	f, err := create(in.root, name)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{f}, e.tar, e.buffer)
	e.written += n
	var ours *fs.PathError
	if err != nil && !errors.As(err, &ours) {
		err = malformed(err)
	}
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode & permissions))
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = in.root.Chtimes(name, h.ModTime, h.ModTime)
	}
	return notMade(err)
}

// onlyWriter hides what else a file can do, which would copy with buffers of its own.
type onlyWriter struct{ io.Writer }

// create makes a file that was not there, in place of one that is.
func create(in *os.Root, name string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := in.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		info, statErr := in.Lstat(name)
		if statErr != nil {
			return nil, notMade(statErr)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%w: there %w", ErrExists, &beneath.KindError{Mode: info.Mode()})
		}
		if err := in.Remove(name); err != nil {
			return nil, notMade(err)
		}
		f, err = in.OpenFile(name, flags, 0o600)
	}
	return f, notMade(err)
}

// notMade tells why something was not made, without its name: that is said before. Errors of the archive are not touched.
func notMade(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("cannot be made: %w", at.Err)
	}
	return err
}

// maxStream is how long the archive may be when it is decompressed. Zero: no bound.
func (e *extractor) maxStream() int64 {
	if e.max <= 0 {
		return 0
	}
	return e.max + int64(e.entries.max+128)*maxHeader
}

// limited ends with ErrTooLarge after more than max bytes, where max is not zero.
type limited struct {
	reader io.Reader
	max    int64
	read   int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.reader.Read(p)
	l.read += int64(n)
	if l.max > 0 && l.read > l.max {
		return 0, ErrTooLarge
	}
	return n, err
}
