package runtimeserver

import (
	"bytes"
	"math/rand/v2"
	"testing"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// listener is a runtimed that is told a journal: it keeps bytes by their offset, and is restarted at times.
type listener struct {
	t            *testing.T
	bytes        []byte // from the beginning
	acknowledged int64
	next         int64 // the offset of the next Output of this session; -1 before the first
}

func (l *listener) hear(event *runtimev1.ServerEvent) {
	output := event.GetOutput()
	if output == nil {
		return
	}
	if l.next >= 0 && output.GetOffset() != l.next {
		l.t.Fatalf("Output at %d, expected at %d", output.GetOffset(), l.next)
	}
	if output.GetOffset() > int64(len(l.bytes)) || len(output.GetData()) == 0 || len(output.GetData()) > maxOutput {
		l.t.Fatalf("Output of %d bytes at %d when %d were known", len(output.GetData()), output.GetOffset(), len(l.bytes))
	}
	l.next = output.GetOffset() + int64(len(output.GetData()))
	if l.next > int64(len(l.bytes)) {
		l.bytes = append(l.bytes, output.GetData()[int64(len(l.bytes))-output.GetOffset():]...)
	}
}

// TestAJournalLosesNothing plays random histories of writing, telling, acknowledging and losing the session.
func TestAJournalLosesNothing(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		j := &journal{id: "x", started: &runtimev1.Started{ExecutionId: "x"}, attached: true}
		l := &listener{t: t, next: -1}
		var written []byte
		for range 300 {
			switch random.IntN(8) {
			case 0, 1, 2:
				data := make([]byte, 1+random.IntN(1<<random.IntN(16)))
				for i := range data {
					data[i] = byte(random.Uint32())
				}
				data = data[:min(len(data), maxOutput)]
				written = append(written, data[:j.stdout.add(data)]...)
			case 3, 4, 5:
				if event := j.next(); event != nil {
					l.hear(event)
				}
			case 6:
				l.acknowledged += random.Int64N(int64(len(l.bytes)) - l.acknowledged + 1)
				j.stdout.acknowledge(l.acknowledged)
			case 7:
				// What was not acknowledged is not known to the next runtimed.
				j.detach()
				j.attached, l.next = true, -1
				l.bytes = l.bytes[:l.acknowledged]
			}
			if j.stdout.size > maxBacklog {
				t.Fatalf("seed %d: %d bytes are kept", seed, j.stdout.size)
			}
		}
		j.exited = &runtimev1.Exited{ExecutionId: "x"}
		var last *runtimev1.ServerEvent
		for event := j.next(); event != nil; event = j.next() {
			l.hear(event)
			last = event
		}
		if last.GetExited() == nil || !bytes.Equal(l.bytes, written) {
			t.Fatalf("seed %d: wrote %d bytes, heard %d, at last %v", seed, len(written), len(l.bytes), last)
		}
	}
}

func TestAJournalIgnoresAcknowledgementsOfWhatItDidNotTell(t *testing.T) {
	j := &journal{id: "x", attached: true}
	j.stdout.add([]byte("abc"))
	for _, offset := range []int64{-1, 0, 2, 1 << 40} {
		j.stdout.acknowledge(offset)
	}
	if data, offset := j.stdout.next(); string(data) != "abc" || offset != 0 {
		t.Fatalf("got %q at %d", data, offset)
	}
	j.stdout.add([]byte("def"))
	j.stdout.acknowledge(1 << 40)
	if data, offset := j.stdout.next(); string(data) != "def" || offset != 3 {
		t.Errorf("got %q at %d", data, offset)
	}
}
