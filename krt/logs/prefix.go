package logs

import (
	"bytes"
	"io"
	"sync"
)

// maxLine bounds what is kept of a line that does not end. Unit: bytes.
const maxLine = 1 << 20

// prefixer puts a prefix before every line. It writes whole lines only, so that those of several steps do not mingle.
type prefixer struct {
	// mu is shared by all that write to the same terminal.
	mu     *sync.Mutex
	out    io.Writer
	prefix string
	// rest is the beginning of a line.
	rest []byte
}

// Write implements io.Writer.
func (p *prefixer) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	end := bytes.LastIndexByte(p.rest, '\n')
	if end < 0 && len(p.rest) < maxLine {
		return len(data), nil
	}
	if end < 0 {
		return len(data), p.flush()
	}
	lines := p.rest[:end+1]
	err := p.write(lines)
	p.rest = append([]byte(nil), p.rest[end+1:]...)
	return len(data), err
}

// flush writes a line that has no end.
func (p *prefixer) flush() error {
	if len(p.rest) == 0 {
		return nil
	}
	err := p.write(append(p.rest, '\n'))
	p.rest = nil
	return err
}

func (p *prefixer) write(lines []byte) error {
	var b bytes.Buffer
	for line := range bytes.Lines(lines) {
		b.WriteString(p.prefix)
		b.Write(line)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.out.Write(b.Bytes())
	return err
}
