package follow

import "kruntimes.io/kruntimes/runtimed/logrecord"

// tail keeps the last lines of an output. A line may consist of several records, and the records of a line of one
// stream may have records of the other between them.
type tail struct {
	lines int

	kept []tailRecord
	// count is the number of lines begun so far, open the line that each stream is in the middle of.
	count int
	open  map[string]int
}

// tailRecord is a record together with the number of its line.
type tailRecord struct {
	logrecord.Record
	line int
}

// add takes one record and lets go of lines that are too old.
func (t *tail) add(r logrecord.Record) error {
	line, midLine := t.open[r.Stream]
	if !midLine {
		t.count++
		line = t.count
	}
	if t.open == nil {
		t.open = map[string]int{}
	}
	if r.Partial {
		t.open[r.Stream] = line
	} else {
		delete(t.open, r.Stream)
	}
	t.kept = append(t.kept, tailRecord{Record: r, line: line})
	drop := 0
	for drop < len(t.kept) && t.isOld(t.kept[drop]) {
		drop++
	}
	t.kept = t.kept[drop:]
	return nil
}

func (t *tail) isOld(r tailRecord) bool { return r.line <= t.count-t.lines }

// flush delivers the lines that are kept.
func (t *tail) flush(deliver func(logrecord.Record) error) error {
	for _, r := range t.kept {
		if t.isOld(r) {
			continue
		}
		if err := deliver(r.Record); err != nil {
			return err
		}
	}
	t.kept = nil
	return nil
}
