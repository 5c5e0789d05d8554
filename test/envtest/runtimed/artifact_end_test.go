package runtimed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// large leaves an artifact whose upload takes long enough to be caught at it.
const large = `head -c 400000000 /dev/zero >"$KRUNTIME_ARTIFACTS_DIR/large"`

// awaitUpload waits until an upload is under way.
func (n *node) awaitUpload(t *testing.T) {
	t.Helper()
	deadline := time.NewTimer(cluster.Deadline)
	defer deadline.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		if growing, err := filepath.Glob(n.path("store/runs/*/unfinished/*")); err != nil || len(growing) > 0 {
			return
		}
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatal("nothing is uploaded")
		}
	}
}

func (n *node) stored(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(n.path("store/runs/*/artifacts/*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKilledWhileUploading expects that a successor uploads anew, and does not execute anew.
func TestKilledWhileUploading(t *testing.T) {
	n := startStoreNode(t)
	run := n.submit(t, "run", appending(n.path("executed"), large))
	n.awaitUpload(t)
	n.runtimed.kill(t)
	if found := n.stored(t); len(found) > 0 {
		t.Fatalf("it was not killed in the middle: %v is stored", found)
	}
	n.startRuntimed(t)
	done := awaitEnd(t, run)
	if diff := cmp.Diff(succeeded(nil), outcomeOf(done)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(done.Status.Artifacts) != 1 || done.Status.Artifacts[0].SizeBytes != 400_000_000 {
		t.Fatalf("got %+v", done.Status.Artifacts)
	}
	if got, want := done.Status.Artifacts[0].Digest, zeroes(t, 400_000_000); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	if got := executions(t, n.path("executed"))["run"]; got != 1 {
		t.Errorf("it was executed %d times", got)
	}
	if got := peak(t, n.runtimed); got > maxPeak {
		t.Errorf("runtimed held %d KiB at its peak, more than %d", got, maxPeak)
	}
	n.awaitClean(t)
}

// maxPeak is what runtimed may hold while it moves an artifact, however large that is. Unit: KiB.
const maxPeak = 64 * 1024

// peak is the largest resident memory that a process ever had. Unit: KiB.
func peak(t *testing.T, p *process) int {
	t.Helper()
	for line := range strings.Lines(readFile(t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))) {
		var size int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &size); n == 1 {
			return size
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// zeroes is the digest of so many zeroes.
func zeroes(t *testing.T, size int64) string {
	t.Helper()
	sum := sha256.New()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.CopyN(sum, zero, size)
	if err := errors.Join(err, zero.Close()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// TestUploadGoesOnWhileThePodDrains expects that an upload is brought to its end.
func TestUploadGoesOnWhileThePodDrains(t *testing.T) {
	n := startStoreNode(t)
	run := n.submit(t, "run", script(large))
	n.awaitUpload(t)
	n.terminate(t, 600*time.Second)
	if done := awaitEnd(t, run); done.Status.Phase != corev1alpha1.RunSucceeded || len(done.Status.Artifacts) != 1 {
		t.Errorf("got %+v", done.Status)
	}
	n.awaitEndInOrder(t)
}

// silentStore is an S3 service that takes connections, says nothing, and tells when it was asked for something.
func silentStore(t *testing.T) (flags []string, asked <-chan string) {
	t.Helper()
	requests := make(chan string, 100)
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case requests <- r.Method + " " + r.URL.Path:
		default:
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	return s3Flags(t, server.URL), requests
}

// s3Flags are those of a bucket of a service.
func s3Flags(t *testing.T, endpoint string) []string {
	t.Helper()
	credentials := t.TempDir()
	for name, text := range map[string]string{"accessKeyID": "id", "secretAccessKey": "secret"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--artifact-s3-bucket=bucket", "--artifact-s3-endpoint=" + endpoint, "--artifact-s3-region=us-east-1",
		"--artifact-s3-force-path-style", "--artifact-credentials=" + credentials}
}

// awaitAsked waits until a store is asked for something that belongs to a Run.
func awaitAsked(t *testing.T, asked <-chan string, run *corev1alpha1.Run) {
	t.Helper()
	deadline := time.NewTimer(cluster.Deadline)
	defer deadline.Stop()
	for {
		select {
		case request := <-asked:
			if strings.Contains(request, string(run.UID)) {
				return
			}
		case <-deadline.C:
			t.Fatal("the store is not asked")
		}
	}
}

// TestASilentStoreHoldsNobody asks for the end of Runs in various ways while a store says nothing.
func TestASilentStoreHoldsNobody(t *testing.T) {
	flags, asked := silentStore(t)
	n := newNode(t)
	n.flags = flags
	n.start(t)
	leaving := script(`echo x >"$KRUNTIME_ARTIFACTS_DIR/x"`)

	run := n.submit(t, "cancelled", leaving)
	awaitAsked(t, asked, run)
	awaitPhase(t, run, corev1alpha1.RunRunning)
	requestCancel(t, run)
	want := outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, ExitCode: ptr.To[int32](0), Message: "Cancelled while the artifacts were stored"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("cancelled, -want +got:\n%s", diff)
	}

	limited := *leaving.DeepCopy()
	limited.Timeout = &metav1.Duration{Duration: time.Second}
	want = outcome{Phase: corev1alpha1.RunTimeout, Reason: corev1alpha1.RunReasonTimeout, ExitCode: ptr.To[int32](0), Message: "Stopped after the timeout of 1s, while the artifacts were stored"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, n.submit(t, "limited", limited)))); diff != "" {
		t.Errorf("limited, -want +got:\n%s", diff)
	}

	deleted := n.submit(t, "deleted", leaving)
	awaitAsked(t, asked, deleted)
	if err := shared.Admin().Delete(t.Context(), deleted.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	awaitDeleted(t, deleted)
	n.awaitClean(t)

	ref := someRef(noRun, "x")
	ref.Driver, ref.Location = corev1alpha1.ArtifactDriverS3, corev1alpha1.ArtifactLocation{
		S3: &corev1alpha1.S3Location{Bucket: "bucket", Key: ref.Location.Filesystem.Path}}
	staging := n.submit(t, "staging", withInputs(appending(n.path("executed"), "true"), corev1alpha1.ArtifactInput{Artifact: ref, Path: "x"}))
	await(t, staging, "under way", func(*corev1alpha1.Run) bool { return n.exists(t, "scratch/"+string(staging.UID)+".1") })
	requestCancel(t, staging)
	want = outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: "Cancelled before the execution started"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, staging))); diff != "" {
		t.Errorf("staging, -want +got:\n%s", diff)
	}

	stuck := n.submit(t, "stuck", leaving)
	awaitAsked(t, asked, stuck)
	n.terminate(t, 12*time.Second)
	want = failed(corev1alpha1.RunReasonPodTerminated, 0, "The Pod was shut down before the artifacts were stored")
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, stuck))); diff != "" {
		t.Errorf("stuck, -want +got:\n%s", diff)
	}
	n.awaitEndInOrder(t)
	if n.exists(t, "executed") {
		t.Error("a Run was executed without its input")
	}
}

// awaitDeleted waits until a Run is gone: nothing but the API server has a say in that.
func awaitDeleted(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	cluster.Eventually(t, "Run "+run.Name+" to be gone", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(run), run.DeepCopy())
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// TestStoreFailures expects the store's own words after the time that it is given.
func TestStoreFailures(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>InvalidAccessKeyId</Code><Message>The key was revoked</Message></Error>`))
	}))
	t.Cleanup(refusing.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	silent, _ := silentStore(t)
	cases := map[string]struct {
		flags []string
		want  string
	}{
		"revoked":      {s3Flags(t, refusing.URL), "The key was revoked"},
		"gone":         {s3Flags(t, closed.URL), "connection refused"},
		"slow":         {silent, "too slow"},
		"no directory": {[]string{"--artifact-directory=/no/such/directory"}, "no such file or directory"},
	}
	t.Run("all", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := newNode(t)
				n.flags = append(tc.flags, "--artifact-patience=2s")
				n.start(t)
				run := awaitEnd(t, n.submit(t, "run", script(`echo a=b >>"$KRUNTIME_OUTPUTS"; echo x >"$KRUNTIME_ARTIFACTS_DIR/x"`)))
				want := failed(corev1alpha1.RunReasonArtifactUploadFailed, 0, run.Status.Message)
				want.Outputs = map[string]corev1alpha1.OutputValue{"a": "b"}
				if diff := cmp.Diff(want, outcomeOf(run)); diff != "" || !strings.Contains(run.Status.Message, tc.want) {
					t.Errorf("want %q in %q, -want +got:\n%s", tc.want, run.Status.Message, diff)
				}
				n.awaitClean(t)
			})
		}
	})
}

// TestGarbageIsSwept has Pods of two namespaces share a store.
func TestGarbageIsSwept(t *testing.T) {
	quick := []string{"--artifact-sweep-interval=500ms", "--artifact-sweep-grace=1ms"}
	one := startStoreNode(t, quick...)
	two := newNode(t).withStore(one.path("store"), quick...)
	two.start(t)
	twin := newNodeIn(t, one.namespace, "runtime-sh-1").withStore(one.path("store"), quick...)
	twin.start(t)
	submit := func(n *node, name string) *corev1alpha1.Run {
		t.Helper()
		run := awaitEnd(t, n.submit(t, name, script(producer)))
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Fatalf("got %+v", outcomeOf(run))
		}
		return run
	}
	gone, kept, theirs := submit(one, "run"), submit(one, "kept"), submit(two, "run")
	directory := func(run *corev1alpha1.Run) string { return one.path("store/runs/" + string(run.UID)) }
	replace := func(run *corev1alpha1.Run) {
		t.Helper()
		if err := shared.Admin().Delete(t.Context(), run.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		awaitDeleted(t, run)
	}
	replace(gone)
	again := submit(one, "run") // another one of its name
	awaitNothingAt(t, directory(gone))
	for name, run := range map[string]*corev1alpha1.Run{"kept": kept, "of another namespace": theirs, "of the same name": again} {
		if _, err := os.Stat(directory(run) + "/artifacts/dist.tgz"); err != nil {
			t.Errorf("the artifacts of a Run that is there, %s: %v", name, err)
		}
	}
	// A store that is broken holds no deletion up, and is swept when it is back.
	if err := os.Rename(one.path("store"), one.path("away")); err != nil {
		t.Fatal(err)
	}
	replace(kept)
	replace(theirs)
	if err := os.Rename(one.path("away"), one.path("store")); err != nil {
		t.Fatal(err)
	}
	awaitNothingAt(t, directory(kept))
	awaitNothingAt(t, directory(theirs))
	if _, err := os.Stat(directory(again) + "/artifacts/dist.tgz"); err != nil {
		t.Error(err)
	}
}

func awaitNothingAt(t *testing.T, path string) {
	t.Helper()
	cluster.Eventually(t, path+" to be removed", func(context.Context) (bool, error) {
		_, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) {
			return true, nil
		}
		return false, err
	})
}

// TestUploadStopsWhenTheRunGoesElsewhere has the lifecycle controller hold a Pod for lost that is not.
func TestUploadStopsWhenTheRunGoesElsewhere(t *testing.T) {
	n := startStoreNode(t)
	run := n.submit(t, "run", retried(script(large), 2))
	n.awaitUpload(t)
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"phase":"Pending","attempt":2,"assignedPod":null,"assignedPodUID":null,"scheduledTime":null,"startTime":null}}`))
	if err := shared.Admin().Status().Patch(t.Context(), run.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	n.awaitClean(t)
	if found := n.stored(t); len(found) > 0 {
		t.Errorf("it was stored all the same: %v", found)
	}
	seen := await(t, run, "as it was", func(*corev1alpha1.Run) bool { return true })
	if s := seen.Status; s.Phase != corev1alpha1.RunPending || s.Attempt != 2 || len(s.Artifacts) > 0 {
		t.Errorf("got %+v", s)
	}
}
