// Package filecopy copies files inside the kernel, and digests what has arrived.
//
// The bytes do not pass through this process on their way, and what is read back, for the digest, lies in the page cache
// still. So a copy costs hardly more than a plain one, and the digest is that of what is stored.
package filecopy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"kruntimes.io/kruntimes/artifacts"
)

// The kernel is asked for so many bytes at a time: for few at first, so that a slow volume is noticed soon.
const (
	firstChunk = 64 << 10
	maxChunk   = 4 << 20
)

// ahead is how many chunks may have arrived that are not digested.
const ahead = 16

// buffer is what is read back, or copied without the kernel's help, at a time. Unit: bytes.
const buffer = 256 << 10

// Copy appends content, from where its file stands, to a file that is empty and open for reading and writing. settle is
// called as soon as all has arrived, while the rest of it is digested.
//
// Errors: artifacts.ErrNoFileCopy, artifacts.WriteError for what is wrong with the target, settle's included, and those of content.
func Copy(to *os.File, content artifacts.FileContent, settle func() error) (size int64, sum hash.Hash, err error) {
	from, moved := content.File()
	if from == nil || !regular(from) || !regular(to) {
		return 0, nil, artifacts.ErrNoFileCopy
	}
	arrived := make(chan int64, ahead)
	sum = sha256.New()
	var digesting errgroup.Group
	digesting.Go(func() error { return digest(sum, to, arrived) })
	size, err = move(to, from, content, func(n int64, isTold bool) error {
		arrived <- n
		if isTold {
			return nil
		}
		return moved(n)
	})
	close(arrived)
	if err == nil {
		err = written(settle())
	}
	if failed := digesting.Wait(); err == nil {
		err = written(failed)
	}
	return size, sum, err
}

// regular tells whether a file is one whose bytes the kernel can copy, and that ends.
func regular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func written(err error) error {
	if err == nil {
		return nil
	}
	return &artifacts.WriteError{Err: err}
}

// move copies up to the end. It calls arrived for each part, and says whether content knows of it because it was read.
func move(to, from *os.File, content io.Reader, arrived func(n int64, isTold bool) error) (size int64, err error) {
	var plain []byte
	for chunk := firstChunk; ; chunk = min(2*chunk, maxChunk) {
		n, err := copyRange(to, from, chunk)
		if err != nil && size == 0 && cannot(err) {
			return 0, artifacts.ErrNoFileCopy
		}
		byKernel := n > 0
		if !byKernel { // It is the end, or it failed: whose fault that is, and the words for it, a plain copy tells.
			if plain == nil {
				plain = make([]byte, buffer)
			}
			n, err = copyPlain(to, content, plain)
			if n == 0 && errors.Is(err, io.EOF) {
				return size, nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return size, err
			}
		}
		size += int64(n)
		if err := arrived(int64(n), !byKernel); err != nil {
			return size, err
		}
	}
}

// copyPlain copies one buffer.
func copyPlain(to io.Writer, content io.Reader, plain []byte) (int, error) {
	n, err := content.Read(plain)
	if n == 0 {
		return 0, err
	}
	if _, failed := to.Write(plain[:n]); failed != nil {
		return 0, written(failed)
	}
	return n, err
}

// digest reads back what has arrived. After an error it reads on for nothing, so that nobody waits for it.
func digest(sum hash.Hash, from io.ReaderAt, arrived <-chan int64) error {
	var offset int64
	var err error
	back := make([]byte, buffer)
	for n := range arrived {
		if err != nil {
			continue
		}
		var read int64
		read, err = io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(from, offset, n), back)
		if err == nil && read < n {
			err = io.ErrUnexpectedEOF
		}
		offset += n
	}
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	return nil
}
