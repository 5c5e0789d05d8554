package run

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// misunderstandings says what a person may have meant otherwise, though it is legal.
func (o *options) misunderstandings() []string {
	if o.quiet {
		return nil
	}
	var texts []string
	if o.nameAfterFile() {
		texts = append(texts, fmt.Sprintf("%q is taken as the name of the Run; arguments of the script come after --", o.request.name))
	}
	if o.request.file != "-" && isPiped(o.factory.IO.In) && hasData(o.factory.IO.In) {
		texts = append(texts, "standard input is not handed to the Run; --file - reads a script from it")
	}
	return texts
}

// isPiped tells whether something other than a person or nothing at all is at the other end of a stream.
func isPiped(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular())
}

// hasData tells whether a stream holds something now. It does not wait: what runs krt may leave a pipe open for ever.
func hasData(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size() > 0
	}
	poll := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&unix.POLLIN != 0
}
