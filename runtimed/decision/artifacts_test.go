package decision

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

func TestForArtifacts(t *testing.T) {
	limits := ArtifactLimits{MaxBytes: 100, MaxCount: 3}
	file := func(name string) ArtifactEntry { return ArtifactEntry{Name: name, Links: 1, Size: 100} }
	cases := map[string]struct {
		entries []ArtifactEntry
		more    bool
		want    []ArtifactObject
		err     string
	}{
		"nothing": {want: []ArtifactObject{}},
		"files and directories come in the order of their names": {
			entries: []ArtifactEntry{file("b"), {Name: "a", Mode: fs.ModeDir | 0o755, Links: 5, Size: 4096}, file(" ü%\"-")},
			want: []ArtifactObject{{" ü%\"-", corev1alpha1.ArtifactFile}, {"a", corev1alpha1.ArtifactDirectory},
				{"b", corev1alpha1.ArtifactFile}},
		},
		"a symbolic link": {entries: []ArtifactEntry{file("a"), {Name: "l", Mode: fs.ModeSymlink, Links: 1}},
			err: `artifact "l" cannot be kept: it is a symbolic link`},
		"a hard link": {entries: []ArtifactEntry{{Name: "h", Links: 2}}, err: `artifact "h" cannot be kept: it is a hard link: the file has 2 names`},
		"a pipe":      {entries: []ArtifactEntry{{Name: "p", Mode: fs.ModeNamedPipe, Links: 1}}, err: `artifact "p" cannot be kept: it is a named pipe`},
		"a socket":    {entries: []ArtifactEntry{{Name: "s", Mode: fs.ModeSocket, Links: 1}}, err: `artifact "s" cannot be kept: it is a socket`},
		"a device":    {entries: []ArtifactEntry{{Name: "d", Mode: fs.ModeDevice, Links: 1}}, err: `artifact "d" cannot be kept: it is a device`},
		"a bad name":  {entries: []ArtifactEntry{file("a\nb")}, err: `artifact name "a\nb" holds a control character`},
		"too large": {entries: []ArtifactEntry{{Name: "big", Links: 1, Size: 101}},
			err: `artifact "big" cannot be kept: it has 101 bytes, more than 100`},
		"too many": {entries: []ArtifactEntry{file("a"), file("b"), file("d"), file("c")},
			err: `$KRUNTIME_ARTIFACTS_DIR holds more than 3 entries, "d" among them: pack them into fewer`},
		"more than were read": {entries: []ArtifactEntry{file("a"), file("b"), file("c")}, more: true,
			err: `$KRUNTIME_ARTIFACTS_DIR holds more than 3 entries, "c" among them: pack them into fewer`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ForArtifacts(tc.entries, tc.more, limits)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if text := errorText(err); text != tc.err {
				t.Errorf("want error %q, got %q", tc.err, text)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestArtifactResults(t *testing.T) {
	outputs := map[string]string{"a": "b"}
	ran := Result{Phase: corev1alpha1.RunSucceeded, ExitCode: ptr.To[int32](0), Outputs: outputs}
	refs := []corev1alpha1.ArtifactRef{{Name: "x"}}
	stored := ran
	stored.Artifacts = refs
	uploadFailed := func(message string) Result {
		return Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonArtifactUploadFailed, Message: message,
			ExitCode: ptr.To[int32](0), Outputs: outputs}
	}
	stopped := func(phase corev1alpha1.RunPhase, reason corev1alpha1.RunReason, message string) Result {
		return Result{Phase: phase, Reason: reason, Message: message, ExitCode: ptr.To[int32](0)}
	}
	cases := map[string]struct{ got, want Result }{
		"stored":           {Collected(ran, refs), stored},
		"not stored":       {NotCollected(ran, errors.New("storing it: disk full")), uploadFailed("Storing it: disk full")},
		"a long story":     {NotCollected(ran, errors.New(strings.Repeat("x", 9999))), uploadFailed("X" + strings.Repeat("x", 4092) + "…")},
		"no store":         {ArtifactsWithoutStore(ran, "sh"), uploadFailed("Runtime sh has no artifactStore: set spec.artifactStore, or leave $KRUNTIME_ARTIFACTS_DIR empty")},
		"cancelled":        {StoppedCollecting(ran, StopCancel, 0), stopped(corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled, "Cancelled while the artifacts were stored")},
		"deleted":          {StoppedCollecting(ran, StopDeleted, 0), stopped(corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled, "The Run was deleted while its artifacts were stored")},
		"out of time":      {StoppedCollecting(ran, StopTimeout, time.Minute), stopped(corev1alpha1.RunTimeout, corev1alpha1.RunReasonTimeout, "Stopped after the timeout of 1m0s, while the artifacts were stored")},
		"shut down":        {StoppedCollecting(ran, StopShutdown, 0), stopped(corev1alpha1.RunFailed, corev1alpha1.RunReasonPodTerminated, "The Pod was shut down before the artifacts were stored")},
		"an input":         {ArtifactInputFailed(errors.New("gone")), Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonArtifactInputFailed, Message: "Gone"}},
		"input, no store":  {InputsWithoutStore("sh"), Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonArtifactInputFailed, Message: "Runtime sh has no artifactStore: set spec.artifactStore of the Runtime, or leave spec.artifactInputs out"}},
		"refused refs":     {Refused(stored, errors.New("no")), Result{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonOutputsInvalid, Message: "The API server refused the result: no", ExitCode: ptr.To[int32](0)}},
		"shut, and cancel": {Final(StoppedCollecting(ran, StopShutdown, 0), &corev1alpha1.Run{Spec: corev1alpha1.RunSpec{CancelRequested: true}}), stopped(corev1alpha1.RunCancelled, corev1alpha1.RunReasonCancelled, "Cancelled: The Pod was shut down before the artifacts were stored")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTerminalStatusHoldsArtifacts(t *testing.T) {
	refs := []corev1alpha1.ArtifactRef{{Name: "x"}}
	run := &corev1alpha1.Run{Status: corev1alpha1.RunStatus{Artifacts: []corev1alpha1.ArtifactRef{{Name: "old"}}}}
	for _, want := range [][]corev1alpha1.ArtifactRef{refs, nil} {
		got := TerminalStatus(run, Result{Phase: corev1alpha1.RunSucceeded, Artifacts: want}, time.Time{}, time.Unix(1, 0))
		if diff := cmp.Diff(want, got.Status.Artifacts); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestStorePasses(t *testing.T) {
	cases := map[string]struct {
		err  error
		want bool
	}{
		"the store says that it passes":   {fmt.Errorf("x: %w", artifacts.NewStoreError("storing", "busy", true, nil)), true},
		"the store says that it does not": {fmt.Errorf("x: %w", artifacts.NewStoreError("storing", "access denied", false, nil)), false},
		"nothing there":                   {fmt.Errorf("x: %w", artifacts.ErrNotFound), false},
		"elsewhere":                       {artifacts.ErrOutside, false},
		"other bytes":                     {artifacts.ErrDigest, false},
		"too large":                       {artifacts.ErrTooLarge, false},
		"removed":                         {artifacts.ErrUnclaimed, false},
		"something else":                  {errors.New("connection reset"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := StorePasses(tc.err); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}
