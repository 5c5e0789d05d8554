package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"kruntimes.io/kruntimes/krt/cli"
)

// maxFile bounds what is read of a file. Unit: bytes.
const maxFile = 16 << 20

// CheckFile reads a file of manifests, or standard input for "-", and returns the documents that it holds and all that is
// wrong with them.
func CheckFile(ctx context.Context, in io.Reader, file string) ([]Document, []Finding, error) {
	content, err := ReadFile(ctx, in, file)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, []Finding{{File: FileName(file), Line: 1, Column: 1, Message: err.Error() + ": split it into several"}}, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		return nil, nil, cli.Usagef("reading the manifests: %w", err)
	}
	return CheckContent(ctx, FileName(file), content)
}

// FileName is how findings call a file.
func FileName(file string) string {
	if file == "-" {
		return "<stdin>"
	}
	return file
}

// CheckContent returns the documents of a file and all that is wrong with them.
func CheckContent(ctx context.Context, name string, content []byte) ([]Document, []Finding, error) {
	documents, findings := split(ctx, name, content)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	for _, d := range documents {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		found, err := check(ctx, d)
		if err != nil {
			return nil, nil, err
		}
		findings = append(findings, found...)
	}
	return documents, inOrder(findings), nil
}

// ErrTooLarge means that a file has more bytes than are read.
var ErrTooLarge = fmt.Errorf("the file has more than %d MiB", maxFile>>20)

// ReadFile reads a file, or standard input for "-". What is no regular file, such as a pipe, may never end or have no
// writer: opening and reading it end with ctx. One that is too large gives ErrTooLarge.
func ReadFile(ctx context.Context, in io.Reader, file string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := readUpTo(in, file)
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done(): // ctrl-C while a person types, or nobody writes
		return nil, ctx.Err()
	case r := <-done:
		if r.err == nil && len(r.data) > maxFile {
			return nil, ErrTooLarge
		}
		return r.data, r.err
	}
}

func readUpTo(in io.Reader, file string) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxFile+1))
}
