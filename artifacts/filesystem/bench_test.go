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

// BenchmarkPut compares with a plain copy of the same file to one that is on the disk at the end.
func BenchmarkPut(b *testing.B) {
	source, dir := artifactstore.Source(b), b.TempDir()
	b.Run("copy", func(b *testing.B) {
		artifactstore.Measure(b, source, func(content io.Reader) error {
			return artifactstore.Write(filepath.Join(dir, "copy"), content)
		})
	})
	b.Run("store", func(b *testing.B) {
		store := filesystem.New(dir)
		must(b, store.Claim(b.Context(), run, artifacts.Owner{Run: "r"}))
		artifactstore.Measure(b, source, func(content io.Reader) error { // as the copy, in place of the one before
			_, err := store.Put(b.Context(), object("a"), content)
			return err
		})
	})
}

// BenchmarkOpen compares with a plain copy of what the store holds to a file that is on the disk at the end.
func BenchmarkOpen(b *testing.B) {
	source, dir := artifactstore.Source(b), b.TempDir()
	store := filesystem.New(dir)
	must(b, store.Claim(b.Context(), run, artifacts.Owner{Run: "r"}))
	ref, err := store.Put(b.Context(), object("a"), source)
	must(b, err)
	stored, err := os.Open(filepath.Join(dir, artifacts.Path(run, "a")))
	must(b, err)
	defer stored.Close()
	b.Run("copy", func(b *testing.B) {
		artifactstore.Measure(b, stored, func(content io.Reader) error {
			return artifactstore.Write(filepath.Join(dir, "copy"), content)
		})
	})
	b.Run("store", func(b *testing.B) {
		artifactstore.Measure(b, stored, func(io.Reader) error {
			r, err := store.Open(b.Context(), ref)
			if err != nil {
				return err
			}
			defer r.Close()
			return artifactstore.Write(filepath.Join(dir, "copy"), r)
		})
	})
}
