package filecopy

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// unable are the errors of kernels and file systems that do not copy, or not between two of their kind.
var unable = []error{unix.EBADF, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.ETXTBSY, unix.EXDEV}

// cannot tells whether it makes no sense to ask the kernel again.
func cannot(err error) bool {
	return slices.ContainsFunc(unable, func(target error) bool { return errors.Is(err, target) })
}

// copyRange has the kernel copy up to n bytes, between the offsets of both files, which it moves. Zero without an error: the end.
func copyRange(to, from *os.File, n int) (copied int, err error) {
	source, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	target, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	var inner, failed error
	err = source.Control(func(in uintptr) {
		inner = target.Control(func(out uintptr) {
			for {
				copied, failed = unix.CopyFileRange(int(in), nil, int(out), nil, n, 0)
				if !errors.Is(failed, unix.EINTR) {
					return
				}
			}
		})
	})
	return max(copied, 0), errors.Join(err, inner, failed)
}
