package containerlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 10 * time.Second

// newShortLog returns a log whose files take few lines each.
func newShortLog(t *testing.T) *Log {
	t.Helper()
	l := newLog(t)
	l.segmentSize = 500
	return l
}

func lines(from, to int) string {
	var all strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	return all.String()
}

// feedLines writes each line by itself.
func feedLines(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		feed(t, l, Stdout, lines(i, i+1))
	}
}

func filesOf(t *testing.T, l *Log) (count int, size int64) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(l.path))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return len(entries), size
}

func TestALogIsBounded(t *testing.T) {
	l := newShortLog(t)
	feedLines(t, l, 0, 5)
	if count, _ := filesOf(t, l); count != 1 {
		t.Errorf("%d files after 5 lines, want 1", count)
	}
	feedLines(t, l, 5, 1000)
	count, size := filesOf(t, l)
	if count != segments || size > segments*l.segmentSize {
		t.Errorf("%d files with %d bytes, want %d files of at most %d", count, size, segments, l.segmentSize)
	}
	got := read(t, l, ReadOptions{})
	if !strings.HasSuffix(lines(0, 1000), got) || strings.Count(got, "\n") < (segments-1)*int(l.segmentSize)/60 {
		t.Errorf("read %q, want the last lines", got)
	}
	n := int64(15)
	if got, want := read(t, l, ReadOptions{TailLines: &n}), lines(985, 1000); got != want {
		t.Errorf("the last 15 lines are %q, want %q", got, want)
	}
	n = 5000
	if tail := read(t, l, ReadOptions{TailLines: &n}); tail != got {
		t.Errorf("more lines than are kept: %q, want %q", tail, got)
	}
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
	if count, _ := filesOf(t, l); count != 0 {
		t.Errorf("%d files are left", count)
	}
}

func TestAFollowerGoesFromFileToFile(t *testing.T) {
	l := newShortLog(t)
	follower, out := io.Pipe()
	followed := make(chan error, 1)
	go func() {
		followed <- l.Read(context.WithoutCancel(t.Context()), ReadOptions{Follow: true}, out)
		_ = out.Close()
	}()
	for i := range 200 {
		feedLines(t, l, i, i+1)
		got := make([]byte, len(lines(i, i+1)))
		if _, err := io.ReadFull(follower, got); err != nil || string(got) != lines(i, i+1) {
			t.Fatalf("followed %q, %v; want %q", got, err, lines(i, i+1))
		}
	}
	// While nobody reads, more is written than is kept.
	feedLines(t, l, 200, 1000)
	_ = l.Close()
	rest, err := io.ReadAll(follower)
	if err != nil || !strings.HasSuffix(string(rest), lines(990, 1000)) {
		t.Errorf("after a pause: %q, %v", rest, err)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// TestAFullDiskStopsNobody writes more than a pipe holds to a log on a full disk, and to the same log when there is room
// again.
func TestAFullDiskStopsNobody(t *testing.T) {
	l := newLog(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("there is no /dev/full: %v", err)
	}
	feed(t, l, Stdout, "before\n")
	disk := l.file
	l.file = full
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- l.Copy(Stdout, reader) }()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 100 {
			_, _ = io.WriteString(writer, strings.Repeat("x", 1023)+"\n")
		}
	}()
	select {
	case <-written:
	case <-time.After(patience):
		t.Fatal("the container is held up")
	}
	l.mu.Lock()
	l.file = disk
	l.mu.Unlock()
	_, _ = io.WriteString(writer, "after\n")
	_ = writer.Close()
	if err := <-result; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got error %v, want %v", err, syscall.ENOSPC)
	}
	const note = " bytes of the log could not be written and are lost]\n"
	got := read(t, l, ReadOptions{})
	if !strings.HasPrefix(got, "before\n[") || strings.Count(got, note) != 1 || !strings.HasSuffix(got, "\nafter\n") {
		t.Errorf("the log holds %.300q", got)
	}
}
