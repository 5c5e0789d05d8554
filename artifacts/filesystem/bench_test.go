package filesystem_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/filesystem"
	"kruntimes.io/kruntimes/test/artifactstore"
)

// BenchmarkPut compares with a copy of the same file.
func BenchmarkPut(b *testing.B) {
	source, dir := artifactstore.Source(b), b.TempDir()
	store := filesystem.New(dir)
	must(b, store.Claim(b.Context(), run, artifacts.Owner{Run: "r"}))
	copied := func(content io.Reader) error { return artifactstore.Write(filepath.Join(dir, "copy"), content) }
	stored := func(content io.Reader) error {
		_, err := store.Put(b.Context(), object("a"), content)
		if err == nil { // as the copy, in no one's place
			err = os.Remove(filepath.Join(dir, artifacts.Path(run, "a")))
		}
		return err
	}
	artifactstore.Compare(b, source, copied, stored)
}

// BenchmarkOpen compares with a copy of what is stored.
func BenchmarkOpen(b *testing.B) {
	source, dir := artifactstore.Source(b), b.TempDir()
	store := filesystem.New(dir)
	must(b, store.Claim(b.Context(), run, artifacts.Owner{Run: "r"}))
	ref, err := store.Put(b.Context(), object("a"), source)
	must(b, err)
	path := filepath.Join(dir, "copy")
	copied := func(io.Reader) error {
		f, err := os.Open(filepath.Join(dir, artifacts.Path(run, "a")))
		if err != nil {
			return err
		}
		defer f.Close()
		return artifactstore.Write(path, f)
	}
	opened := func(io.Reader) error {
		r, err := store.Open(b.Context(), ref)
		if err != nil {
			return err
		}
		defer r.Close()
		return artifactstore.WriteWith(path, func(f *os.File) error {
			return r.(artifacts.FileCopier).CopyTo(f, func(int64) error { return nil })
		})
	}
	artifactstore.Compare(b, source, copied, opened)
}
