package artifactstore

import (
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
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

// Compare does the same with all of the source in two ways, in turns, since what a disk and a machine's memory take changes
// from one moment to the next. It reports the throughput of each way and their ratio, from the medians, and the peak of
// resident memory.
func Compare(b *testing.B, source *os.File, plain, store func(source io.Reader) error) {
	b.Helper()
	info, err := source.Stat()
	if err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak counts from now on
		b.Fatal(err)
	}
	ways, took := []func(io.Reader) error{plain, store}, [2][]time.Duration{}
	for round := 0; b.Loop(); round++ {
		for turn := range ways {
			way := (round + turn) % len(ways) // neither is always first
			if _, err := source.Seek(0, io.SeekStart); err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			if err := ways[way](source); err != nil {
				b.Fatal(err)
			}
			took[way] = append(took[way], time.Since(start))
		}
	}
	throughput := func(way int) float64 {
		slices.Sort(took[way])
		return float64(info.Size()) / 1e6 / took[way][len(took[way])/2].Seconds()
	}
	b.ReportMetric(throughput(0), "plain-MB/s")
	b.ReportMetric(throughput(1), "store-MB/s")
	b.ReportMetric(throughput(1)/throughput(0), "ratio")
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
	return WriteWith(path, func(f *os.File) error {
		_, err := io.Copy(f, content)
		return err
	})
}

// WriteWith is Write for what copies itself into a file.
func WriteWith(path string, fill func(f *os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	if err := fill(f); err != nil {
		return err
	}
	return f.Sync()
}
