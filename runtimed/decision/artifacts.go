package decision

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/statuspatch"
)

// ArtifactLimits bound what a Run may leave as artifacts.
type ArtifactLimits struct {
	// MaxBytes bounds each artifact. Unit: bytes.
	MaxBytes int64
	// MaxCount bounds how many there are; at most corev1alpha1.MaxArtifacts.
	MaxCount int
}

// ArtifactEntry is something that lies in the artifacts directory of an execution.
type ArtifactEntry struct {
	// Name is its name there.
	Name string
	// Mode tells what it is.
	Mode fs.FileMode
	// Size is that of a file. Unit: bytes.
	Size int64
	// Links is how many names a file has.
	Links uint64
}

// ArtifactObject is an artifact to be stored.
type ArtifactObject struct {
	// Name is that of the entry.
	Name string
	// Type says what it is.
	Type corev1alpha1.ArtifactType
}

// ForArtifacts decides what becomes of the entries of an artifacts directory, in the order of their names. more tells that
// there are others. The error names the entry that cannot be kept: then none is.
func ForArtifacts(entries []ArtifactEntry, more bool, limits ArtifactLimits) ([]ArtifactObject, error) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b ArtifactEntry) int { return strings.Compare(a.Name, b.Name) })
	if more || len(entries) > limits.MaxCount {
		return nil, fmt.Errorf("$KRUNTIME_ARTIFACTS_DIR holds more than %d entries, %q among them: pack them into fewer",
			limits.MaxCount, entries[len(entries)-1].Name)
	}
	objects := make([]ArtifactObject, 0, len(entries))
	for _, e := range entries {
		if err := artifacts.CheckName(e.Name); err != nil {
			return nil, err
		}
		kind, err := artifactType(e, limits)
		if err != nil {
			return nil, fmt.Errorf("artifact %q cannot be kept: %w", e.Name, err)
		}
		objects = append(objects, ArtifactObject{Name: e.Name, Type: kind})
	}
	return objects, nil
}

func artifactType(e ArtifactEntry, limits ArtifactLimits) (corev1alpha1.ArtifactType, error) {
	switch {
	case e.Mode.IsDir():
		return corev1alpha1.ArtifactDirectory, nil
	case !e.Mode.IsRegular():
		return "", fmt.Errorf("it is %s", DescribeMode(e.Mode))
	case e.Links > 1:
		return "", fmt.Errorf("it is a hard link: the file has %d names", e.Links)
	case e.Size > limits.MaxBytes:
		return "", fmt.Errorf("it has %d bytes, more than %d", e.Size, limits.MaxBytes)
	}
	return corev1alpha1.ArtifactFile, nil
}

// DescribeMode names the kind of what is no regular file.
func DescribeMode(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// Collected is r, the result of a script that succeeded, after its artifacts were stored.
func Collected(r Result, refs []corev1alpha1.ArtifactRef) Result {
	r.Artifacts = refs
	return r
}

// NotCollected is r, the result of a script that succeeded, after its artifacts could not be stored. The exit code and the
// outputs are kept.
func NotCollected(r Result, err error) Result {
	r.Phase, r.Reason = corev1alpha1.RunFailed, corev1alpha1.RunReasonArtifactUploadFailed
	r.Message = statuspatch.Bounded(capitalized(err.Error()), maxMessage)
	r.Artifacts = nil
	return r
}

// StoppedCollecting is the result of a script that succeeded, but whose end was asked for before its artifacts were stored.
func StoppedCollecting(r Result, cause StopCause, timeout time.Duration) Result {
	switch cause {
	case StopTimeout:
		return Result{
			Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, ExitCode: r.ExitCode,
			Message: fmt.Sprintf("Stopped after the timeout of %s, while the artifacts were stored", timeout),
		}
	case StopShutdown:
		return failed(corev1alpha1.RunReasonPodTerminated, "The Pod was shut down before the artifacts were stored", r.ExitCode)
	case StopDeleted:
		return cancelled("The Run was deleted while its artifacts were stored", r.ExitCode)
	case StopCancel, StopNone:
	}
	return cancelled("Cancelled while the artifacts were stored", r.ExitCode)
}

// ArtifactInputFailed is the result of a Run of which an artifact input could not be staged.
func ArtifactInputFailed(err error) Result {
	return failed(corev1alpha1.RunReasonArtifactInputFailed, statuspatch.Bounded(capitalized(err.Error()), maxMessage), nil)
}

// InputsWithoutStore is the result of a Run with artifact inputs whose Runtime keeps no artifacts.
func InputsWithoutStore(runtime string) Result {
	return failed(corev1alpha1.RunReasonArtifactInputFailed, fmt.Sprintf(
		"Runtime %s has no artifactStore: set spec.artifactStore of the Runtime, or leave spec.artifactInputs out", runtime), nil)
}

// ArtifactsWithoutStore is r, the result of a script that succeeded, where it leaves artifacts although its Runtime keeps
// none.
func ArtifactsWithoutStore(r Result, runtime string) Result {
	r.Phase, r.Reason = corev1alpha1.RunFailed, corev1alpha1.RunReasonArtifactUploadFailed
	r.Message = fmt.Sprintf(
		"Runtime %s has no artifactStore: set spec.artifactStore, or leave $KRUNTIME_ARTIFACTS_DIR empty", runtime)
	return r
}

// StorePasses tells whether a failure of an artifact store may be over at the next attempt. A store that does not say so
// itself is believed to recover, unless it has answered.
func StorePasses(err error) bool {
	if failed := (*artifacts.StoreError)(nil); errors.As(err, &failed) {
		return failed.Passing
	}
	for _, final := range []error{
		artifacts.ErrNotFound, artifacts.ErrOutside, artifacts.ErrDigest, artifacts.ErrTooLarge, artifacts.ErrUnclaimed,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}
