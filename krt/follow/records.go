package follow

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// maxRecord bounds the memory for one line of the log. A record holds up to 16 KiB, which JSON may blow up sixfold.
const maxRecord = 1 << 20

// eachRecord calls fn for every record of a log that mentions the UID, until fn returns false or an error, or the log
// ends. Lines that are no records, or longer than any record can be, are skipped. A last line that was cut off is no
// record either; it comes again when the log is reopened.
func eachRecord(log io.Reader, uid string, fn func(logrecord.Record) (bool, error)) error {
	in := bufio.NewReaderSize(log, 64*1024)
	needle := []byte(uid)
	for {
		line, err := readLine(in)
		if bytes.Contains(line, needle) { // spares the parsing of what other Runs have printed
			if r, ok := logrecord.Parse(line); ok {
				more, fnErr := fn(r)
				if fnErr != nil || !more {
					return fnErr
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine returns the next line, or nil for one over maxRecord. The line is valid until the next call.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		if len(long) <= maxRecord {
			long = append(long, line...)
		}
	}
	if len(long) > maxRecord {
		return nil, err
	}
	return long, err
}
