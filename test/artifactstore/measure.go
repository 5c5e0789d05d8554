package artifactstore

import (
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// size is how much benchmarks store. Unit: bytes.
var size = flag.Int64("artifact.bytes", 1<<30, "store so many `bytes` in benchmarks; -short: 64 MiB")

// Source returns a file for benchmarks, with content that does not compress.
func Source(b *testing.B) *os.File {
	b.Helper()
	n := *size
	if testing.Short() {
		n = 64 << 20
	}
	f, err := os.Create(filepath.Join(b.TempDir(), "source"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if _, err := io.CopyN(f, rand.Reader, n); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		b.Fatal(err)
	}
	return f
}

// Measure does something with all of the source again and again, and reports throughput and the peak of resident memory.
func Measure(b *testing.B, source *os.File, do func(source io.Reader) error) {
	b.Helper()
	info, err := source.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak counts from now on
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := source.Seek(0, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		if err := do(source); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(peak(b))/1024, "peak-MiB")
}

// peak is the most memory that was resident. Unit: KiB.
func peak(b *testing.B) (kib int64) {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		b.Fatalf("reading the peak: %v", err)
	}
	return kib
}

// Write copies into a new file, until it is on the disk, and removes it.
func Write(path string, content io.Reader) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}
