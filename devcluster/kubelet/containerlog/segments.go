package containerlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Bounds of what is kept of a log, as a kubelet keeps it: when the newest file is full, the oldest goes.
const (
	segmentSize = 10 << 20
	segments    = 5
)

// segment is one file of a log. Places in a log are counted from its beginning, also when that is no longer kept.
type segment struct {
	path       string
	start, end int64
}

// rotate starts another file if so many bytes more would make the newest one too long. The caller holds the lock.
func (l *Log) rotate(more int64) error {
	newest := l.kept[len(l.kept)-1]
	if newest.end == newest.start || newest.end-newest.start+more <= l.segmentSize {
		return nil
	}
	path := fmt.Sprintf("%s.%d", l.path, l.size)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_ = l.file.Close() // All of it is written: there is nothing to lose.
	l.file = file
	l.kept = append(l.kept, &segment{path: path, start: l.size, end: l.size})
	for len(l.kept) > segments {
		_ = os.Remove(l.kept[0].path)
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	return nil
}

// Remove deletes the files of a log.
func (l *Log) Remove() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range l.kept {
		errs = append(errs, os.Remove(s.path))
	}
	return errors.Join(errs...)
}

// view reads a log as if it were one file. What it has opened stays readable when the log lets go of it.
type view struct {
	log  *Log
	open []openSegment // the oldest first
}

type openSegment struct {
	*segment
	file *os.File
	end  int64 // as it was at the last refresh
}

// refresh opens what was added to the log, and closes what ends before offset.
func (v *view) refresh(offset int64) error {
	v.log.mu.Lock()
	defer v.log.mu.Unlock() // A file must not be removed before it is open.
	for _, s := range v.log.kept {
		if len(v.open) > 0 && s.start <= v.open[len(v.open)-1].start {
			continue
		}
		file, err := os.Open(s.path)
		if err != nil {
			return fmt.Errorf("opening the container's log: %w", err)
		}
		v.open = append(v.open, openSegment{segment: s, file: file})
	}
	for i := range v.open {
		v.open[i].end = v.open[i].segment.end
	}
	for len(v.open) > 1 && v.open[0].end <= offset {
		_ = v.open[0].file.Close()
		v.open = slices.Delete(v.open, 0, 1)
	}
	return nil
}

// next returns offset or, when that is no longer kept, the first place after it that is.
func (v *view) next(offset int64) int64 {
	for _, s := range v.open {
		if offset < s.end {
			return max(offset, s.start)
		}
	}
	return offset
}

func (v *view) close() {
	for _, s := range v.open {
		_ = s.file.Close()
	}
}

// ReadAt implements io.ReaderAt for what is kept.
func (v *view) ReadAt(p []byte, offset int64) (n int, err error) {
	for _, s := range v.open {
		if at := offset + int64(n); at >= s.start && at < s.end && n < len(p) {
			m, err := s.file.ReadAt(p[n:min(int64(len(p)), int64(n)+s.end-at)], at-s.start)
			n += m
			if err != nil && !errors.Is(err, io.EOF) {
				return n, err
			}
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
