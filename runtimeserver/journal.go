package runtimeserver

import (
	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// maxBacklog is how much of one output stream is kept for runtimed at most. Unit: bytes.
const maxBacklog = 64 << 10

// journal holds what runtimed has to be told of one execution, until runtimed says that it knows. It is plain data: the
// server guards it.
type journal struct {
	id      string
	started *runtimev1.Started
	stdout  backlog
	stderr  backlog
	exited  *runtimev1.Exited

	// attached tells that the present session carries the events; startedTold and exitedTold what it has carried.
	attached, startedTold, exitedTold bool
	// forgotten tells that nobody has to be told anything any more.
	forgotten bool
}

// backlog holds the bytes of one output stream that runtimed has not acknowledged.
type backlog struct {
	// base is the offset of the first byte of chunks, size how many bytes they hold.
	base int64
	size int
	// chunks before told were handed to the present session, and must not change any more.
	chunks [][]byte
	told   int
}

// backlog returns that of an output stream; nil for one that does not exist.
func (j *journal) backlog(stream runtimev1.OutputStream) *backlog {
	switch stream {
	case runtimev1.OutputStream_OUTPUT_STREAM_STDOUT:
		return &j.stdout
	case runtimev1.OutputStream_OUTPUT_STREAM_STDERR:
		return &j.stderr
	default:
		return nil
	}
}

// detach prepares for another session, which has to be told everything.
func (j *journal) detach() {
	j.attached, j.startedTold, j.exitedTold = false, false, false
	j.stdout.told, j.stderr.told = 0, 0
}

// forget drops everything, and what is still to come.
func (j *journal) forget() {
	j.forgotten = true
	j.stdout, j.stderr = backlog{}, backlog{}
}

// next returns the next event for the present session; nil when it knows everything. Once a process was reported to have
// started, all of its output comes before its end.
func (j *journal) next() *runtimev1.ServerEvent {
	switch {
	case !j.attached || j.forgotten:
		return nil
	case j.started != nil && !j.startedTold:
		j.startedTold = true
		return &runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Started{Started: j.started}}
	}
	for _, stream := range []runtimev1.OutputStream{
		runtimev1.OutputStream_OUTPUT_STREAM_STDOUT, runtimev1.OutputStream_OUTPUT_STREAM_STDERR,
	} {
		if data, offset := j.backlog(stream).next(); data != nil {
			return &runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Output{Output: &runtimev1.Output{
				ExecutionId: j.id, Stream: stream, Data: data, Offset: offset,
			}}}
		}
	}
	if j.exited != nil && !j.exitedTold {
		j.exitedTold = true
		return &runtimev1.ServerEvent{Event: &runtimev1.ServerEvent_Exited{Exited: j.exited}}
	}
	return nil
}

// add takes a copy of as much of data as there is room for, and returns how much that is. What was not handed out yet
// grows up to maxOutput.
func (b *backlog) add(data []byte) int {
	data = data[:min(len(data), maxBacklog-b.size)]
	if len(data) == 0 {
		return 0
	}
	b.size += len(data)
	if last := len(b.chunks) - 1; last >= b.told && len(b.chunks[last])+len(data) <= maxOutput {
		b.chunks[last] = append(b.chunks[last], data...)
	} else {
		b.chunks = append(b.chunks, append([]byte(nil), data...))
	}
	return len(data)
}

// next hands out bytes and their offset; nil when there are none.
func (b *backlog) next() ([]byte, int64) {
	if b.told == len(b.chunks) {
		return nil, 0
	}
	offset := b.base
	for _, chunk := range b.chunks[:b.told] {
		offset += int64(len(chunk))
	}
	b.told++
	return b.chunks[b.told-1], offset
}

// acknowledge drops what lies before the given offset, of what was handed out.
func (b *backlog) acknowledge(offset int64) {
	for b.told > 0 && offset > b.base {
		first := b.chunks[0]
		n := min(offset-b.base, int64(len(first)))
		b.base += n
		b.size -= int(n)
		if n < int64(len(first)) {
			b.chunks[0] = first[n:]
			return
		}
		b.chunks[0] = nil
		b.chunks = b.chunks[1:]
		b.told--
	}
}
