package runtimed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// withStore makes runtimed of a node keep artifacts in a directory.
func (n *node) withStore(directory string, flags ...string) *node {
	n.flags = append([]string{"--artifact-directory=" + directory}, flags...)
	return n
}

// startStoreNode starts a node with an artifact store of its own, in the directory store.
func startStoreNode(t *testing.T, flags ...string) *node {
	t.Helper()
	n := newNode(t)
	if err := os.Mkdir(n.path("store"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.withStore(n.path("store"), flags...).start(t)
	return n
}

// withInputs gives a Run artifacts: pairs of address and path.
func withInputs(spec corev1alpha1.RunSpec, inputs ...corev1alpha1.ArtifactInput) corev1alpha1.RunSpec {
	spec.ArtifactInputs = inputs
	return spec
}

func artifactsOf(run *corev1alpha1.Run) map[string]corev1alpha1.ArtifactRef {
	byName := map[string]corev1alpha1.ArtifactRef{}
	for _, ref := range run.Status.Artifacts {
		byName[ref.Name] = ref
	}
	return byName
}

// produce runs a script that succeeds, and returns what it left.
func (n *node) produce(t *testing.T, name, text string) map[string]corev1alpha1.ArtifactRef {
	t.Helper()
	run := awaitEnd(t, n.submit(t, name, script(text)))
	if diff := cmp.Diff(succeeded(nil), outcomeOf(run)); diff != "" {
		t.Fatalf("Run %s, -want +got:\n%s", name, diff)
	}
	return artifactsOf(run)
}

const producer = `cd "$KRUNTIME_ARTIFACTS_DIR"
echo bytes >dist.tgz
mkdir -p tree/sub; echo a >tree/a; echo b >tree/sub/b; chmod 4755 tree/a
touch " ü-%2F"
`

// TestArtifactsOutliveTheirPod also shows what the status holds.
func TestArtifactsOutliveTheirPod(t *testing.T) {
	one := startStoreNode(t)
	refs := one.produce(t, "producer", producer)
	run := &corev1alpha1.Run{}
	if err := shared.Admin().Get(t.Context(), types.NamespacedName{Namespace: one.namespace, Name: "producer"}, run); err != nil {
		t.Fatal(err)
	}
	ref := func(name string, kind corev1alpha1.ArtifactType) corev1alpha1.ArtifactRef {
		return corev1alpha1.ArtifactRef{Name: name, Type: kind, Driver: corev1alpha1.ArtifactDriverFilesystem,
			Location: corev1alpha1.ArtifactLocation{Filesystem: &corev1alpha1.FilesystemLocation{
				Path: fmt.Sprintf("runs/%s/artifacts/%s", run.UID, name)}}}
	}
	want := []corev1alpha1.ArtifactRef{ref(" ü-%2F", "File"), ref("dist.tgz", "File"), ref("tree", "Directory")}
	ignored := cmpopts.IgnoreFields(corev1alpha1.ArtifactRef{}, "SizeBytes", "Digest", "CreatedAt")
	if diff := cmp.Diff(want, run.Status.Artifacts, ignored); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := refs["dist.tgz"]; got.SizeBytes != 6 || !strings.HasPrefix(got.Digest, "sha256:") || got.CreatedAt == nil {
		t.Errorf("got %+v", got)
	}
	one.terminate(t, 600*time.Second)
	one.awaitEndInOrder(t)

	two := newNodeIn(t, one.namespace, "runtime-sh-1").withStore(one.path("store"))
	two.start(t)
	two.workspace(t, "ws")
	consumer := withInputs(script(`[ "$(cat lib/dist.tgz)" = bytes ]; [ "$(cat t/a t/sub/b | tr -d '\n')" = ab ]
[ -x t/a ] && [ ! -u t/a ]; [ -e " x" ]; ls -A >&2; [ "$(ls -A | grep -v .kruntimes | wc -l)" = 3 ]`),
		corev1alpha1.ArtifactInput{Artifact: refs["dist.tgz"], Path: "lib/dist.tgz"},
		corev1alpha1.ArtifactInput{Artifact: refs["tree"], Path: "t"},
		corev1alpha1.ArtifactInput{Artifact: refs[" ü-%2F"], Path: " x"})
	shares := *consumer.DeepCopy()
	shares.Workspace = &corev1alpha1.WorkspaceReference{Name: "ws"}
	for name, spec := range map[string]corev1alpha1.RunSpec{"consumer": consumer, "shares": shares, "shares-again": shares} {
		if diff := cmp.Diff(succeeded(nil), outcomeOf(awaitEnd(t, two.submit(t, name, spec)))); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
	two.awaitClean(t)
}

// TestArtifactsAreRefused leaves what cannot be kept. The exit code and the outputs of the script are kept.
func TestArtifactsAreRefused(t *testing.T) {
	n := startStoreNode(t, "--artifact-max-bytes=1000")
	cases := map[string]struct{ text, want string }{
		"symbolic-link":   {`echo x >a; ln -s /etc/passwd link`, `Artifact "link" cannot be kept: it is a symbolic link`},
		"dangling-link":   {`ln -s nowhere link`, `Artifact "link" cannot be kept: it is a symbolic link`},
		"hard-link":       {`echo x >a; ln a "$HOME/b"`, `Artifact "a" cannot be kept: it is a hard link: the file has 2 names`},
		"pipe":            {`mkfifo p`, `Artifact "p" cannot be kept: it is a named pipe`},
		"newline":         {`touch "a` + "\n" + `b"`, `Artifact name "a\nb" holds a control character`},
		"not-utf-8":       {`touch "$(printf 'a\377')"`, `Artifact name "a\xff" is not UTF-8`},
		"too-many":        {`for i in $(seq 33); do touch $i; done`, `$KRUNTIME_ARTIFACTS_DIR holds more than 32 entries`},
		"thousands":       {`for i in $(seq 10000); do : >$i; done`, `$KRUNTIME_ARTIFACTS_DIR holds more than 32 entries`},
		"too-large":       {`head -c 1001 /dev/zero >big`, `Artifact "big" cannot be kept: it has 1001 bytes, more than 1000`},
		"a-large-tree":    {`mkdir d; head -c 600 /dev/zero >d/1; head -c 600 /dev/zero >d/2`, `Artifact "d" has files of more than 1000 bytes together`},
		"link-in-tree":    {`mkdir -p d/e; ln -s / d/e/l`, `"e/l"`},
		"hard-in-tree":    {`mkdir d; echo x >d/a; ln d/a d/b`, `"a"`},
		"pipe-in-tree":    {`mkdir d; mkfifo d/p`, `"p"`},
		"directory-swap":  {`cd ..; rmdir artifacts; ln -s /etc artifacts`, `Opening $KRUNTIME_ARTIFACTS_DIR: artifacts: it is no directory`},
		"directory-file":  {`cd ..; rmdir artifacts; touch artifacts`, `Opening $KRUNTIME_ARTIFACTS_DIR: artifacts: it is no directory`},
		"case-in-tree":    {`mkdir d; touch d/a d/A`, `differs from one only in case`},
		"newline-in-tree": {`mkdir d; mkdir "d/x` + "\n" + `"; ln -s / "d/x` + "\n" + `/l"`, `"x\n/l"`},
	}
	t.Run("all", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run := awaitEnd(t, n.submit(t, name, script(`echo a=b >>"$KRUNTIME_OUTPUTS"; cd "$KRUNTIME_ARTIFACTS_DIR"; `+tc.text)))
				want := failed(corev1alpha1.RunReasonArtifactUploadFailed, 0, run.Status.Message)
				want.Outputs = map[string]corev1alpha1.OutputValue{"a": "b"}
				if diff := cmp.Diff(want, outcomeOf(run)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if !strings.Contains(run.Status.Message, tc.want) {
					t.Errorf("want %q in message %q", tc.want, run.Status.Message)
				}
				if len(run.Status.Artifacts) > 0 {
					t.Errorf("it has artifacts: %v", run.Status.Artifacts)
				}
			})
		}
	})
	n.awaitClean(t)
}

// TestNothingLeftIsNothingKept expects that the store is not touched.
func TestNothingLeftIsNothingKept(t *testing.T) {
	n := startStoreNode(t)
	for name, text := range map[string]string{
		"nothing": "true", "removed": `rmdir "$KRUNTIME_ARTIFACTS_DIR"`, "tidied": `touch "$KRUNTIME_ARTIFACTS_DIR/x"; rm "$KRUNTIME_ARTIFACTS_DIR/x"`,
	} {
		if refs := n.produce(t, name, text); len(refs) > 0 {
			t.Errorf("%s: %v", name, refs)
		}
	}
	if failing := awaitEnd(t, n.submit(t, "fails", script(`touch "$KRUNTIME_ARTIFACTS_DIR/x"; exit 3`))); failing.Status.Reason != corev1alpha1.RunReasonScriptFailed {
		t.Errorf("got %+v", outcomeOf(failing))
	}
	if left, err := filepath.Glob(n.path("store/runs/*")); err != nil || len(left) > 0 {
		t.Errorf("the store holds %v, %v", left, err)
	}
}

// someRef is an address in a store of directories.
func someRef(run, name string) corev1alpha1.ArtifactRef {
	return corev1alpha1.ArtifactRef{Name: name, Type: corev1alpha1.ArtifactFile, Driver: corev1alpha1.ArtifactDriverFilesystem,
		Digest: "sha256:" + strings.Repeat("0", 64),
		Location: corev1alpha1.ArtifactLocation{Filesystem: &corev1alpha1.FilesystemLocation{
			Path: "runs/" + run + "/artifacts/" + name}}}
}

const noRun = "00000000-0000-0000-0000-000000000000"

func TestWithoutArtifactStore(t *testing.T) {
	n := startNode(t)
	left := awaitEnd(t, n.submit(t, "left", script(`touch "$KRUNTIME_ARTIFACTS_DIR/x"`)))
	want := failed(corev1alpha1.RunReasonArtifactUploadFailed, 0, "Runtime sh has no artifactStore: set spec.artifactStore, or leave $KRUNTIME_ARTIFACTS_DIR empty")
	if diff := cmp.Diff(want, outcomeOf(left)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	taken := awaitEnd(t, n.submit(t, "taken", withInputs(appending(n.path("executed"), "true"), corev1alpha1.ArtifactInput{Artifact: someRef(noRun, "x"), Path: "x"})))
	want = outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonArtifactInputFailed,
		Message: "Runtime sh has no artifactStore: set spec.artifactStore of the Runtime, or leave spec.artifactInputs out"}
	if diff := cmp.Diff(want, outcomeOf(taken)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n.exists(t, "executed") {
		t.Error("it was executed")
	}
	n.awaitClean(t)
}

// TestArtifactInputsAreRefused expects clear words and no execution.
func TestArtifactInputsAreRefused(t *testing.T) {
	n := startStoreNode(t)
	refs := n.produce(t, "producer", producer)
	foreign := newNode(t).withStore(n.path("store"))
	foreign.start(t)
	theirs := foreign.produce(t, "producer", producer)
	elsewhere := refs["dist.tgz"]
	elsewhere.Driver, elsewhere.Location = corev1alpha1.ArtifactDriverS3, corev1alpha1.ArtifactLocation{
		S3: &corev1alpha1.S3Location{Bucket: "bucket", Key: elsewhere.Location.Filesystem.Path}}
	changed := refs["dist.tgz"]
	changed.Digest = "sha256:" + strings.Repeat("0", 64)
	noArchive := refs["dist.tgz"]
	noArchive.Type = corev1alpha1.ArtifactDirectory
	cases := map[string]struct {
		ref  corev1alpha1.ArtifactRef
		want string
	}{
		"missing":    {someRef(noRun, "x"), "no such artifact"},
		"foreign":    {theirs["dist.tgz"], `artifact "dist.tgz" belongs to another namespace`},
		"elsewhere":  {elsewhere, "not in this artifact store"},
		"changed":    {changed, "the bytes differ from those that were stored"},
		"no-archive": {noArchive, `Staging "at"`},
	}
	for name, tc := range cases {
		run := awaitEnd(t, n.submit(t, name, withInputs(appending(n.path("executed"), "true"), corev1alpha1.ArtifactInput{Artifact: tc.ref, Path: "at"})))
		want := outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonArtifactInputFailed, Message: run.Status.Message}
		if diff := cmp.Diff(want, outcomeOf(run)); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
		if !strings.Contains(run.Status.Message, tc.want) {
			t.Errorf("%s: want %q in message %q", name, tc.want, run.Status.Message)
		}
	}
	if n.exists(t, "executed") {
		t.Error("something was executed")
	}
	n.awaitClean(t)
}

// TestPlantedLinksLeadNowhere has a Run lay traps in a workspace for the inputs of the next one.
func TestPlantedLinksLeadNowhere(t *testing.T) {
	n := startStoreNode(t)
	refs := n.produce(t, "producer", producer)
	n.workspace(t, "ws")
	n.workspace(t, "other")
	n.write(t, "outside", "untouched")
	awaitEnd(t, n.submit(t, "other", inWorkspace("other", "echo untouched >kept")))
	cases := map[string]struct {
		plant, ref, path, want string
	}{
		"in-place-of-the-file":      {"ln -s %s/outside f1", "dist.tgz", "f1", `"f1" is in the way: it is a symbolic link`},
		"in-place-of-a-directory":   {"ln -s %s/workspace/persistent/other d1", "dist.tgz", "d1/kept", "d1: it is no directory"},
		"within-the-workspace":      {"mkdir real; ln -s real d2", "dist.tgz", "d2/f", "d2: it is no directory"},
		"in-place-of-the-tree":      {"ln -s %s/workspace/persistent/other d3", "tree", "d3", `"d3" is in the way: it is a symbolic link`},
		"in-the-tree":               {"mkdir d4; ln -s %s/workspace/persistent/other d4/sub", "tree", "d4", `"d4/sub" is in the way: it is a symbolic link`},
		"in-place-of-a-nested-file": {"mkdir d5; ln -s %s/outside d5/a", "tree", "d5", `"d5/a" is in the way: it is a symbolic link`},
	}
	for name, tc := range cases {
		plant := tc.plant
		if strings.Contains(plant, "%s") {
			plant = fmt.Sprintf(plant, n.dir)
		}
		if planted := awaitEnd(t, n.submit(t, "plants-"+name, inWorkspace("ws", plant))); planted.Status.Phase != corev1alpha1.RunSucceeded {
			t.Fatalf("%s: %+v", name, outcomeOf(planted))
		}
		spec := withInputs(inWorkspace("ws", "true"), corev1alpha1.ArtifactInput{Artifact: refs[tc.ref], Path: tc.path})
		run := awaitEnd(t, n.submit(t, name, spec))
		if run.Status.Reason != corev1alpha1.RunReasonArtifactInputFailed || !strings.Contains(run.Status.Message, tc.want) {
			t.Errorf("%s: want %q, got %+v", name, tc.want, outcomeOf(run))
		}
	}
	if got := readFile(t, n.path("outside")); got != "untouched" {
		t.Errorf("a file outside holds %q", got)
	}
	entries, err := os.ReadDir(n.path("workspace/persistent/other"))
	if err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, n.path("workspace/persistent/other/kept")); got != "untouched\n" || len(entries) != 2 {
		t.Errorf("the other workspace holds %v, and in kept %q", entries, got)
	}
	n.awaitClean(t)
}

// TestAttemptsDoNotMix has a first attempt that stores something before it fails, and a second one that leaves less.
func TestAttemptsDoNotMix(t *testing.T) {
	n := startStoreNode(t)
	spec := retried(script(`cd "$KRUNTIME_ARTIFACTS_DIR"
if [ "$KRUNTIME_ATTEMPT" = 1 ]; then echo old >a; echo old >b; mkdir z; ln -s / z/link; else echo new >b; fi`), 2, corev1alpha1.RunReasonArtifactUploadFailed)
	run := n.submit(t, "run", spec)
	back := awaitAttempt(t, run, 2)
	if s := back.Status; s.Reason != corev1alpha1.RunReasonArtifactUploadFailed || len(s.Artifacts) > 0 || ptr.Deref(s.ExitCode, -1) != 0 {
		t.Errorf("handed back with %+v", s)
	}
	n.rebind(t, back)
	done := awaitEnd(t, run)
	if done.Status.Phase != corev1alpha1.RunSucceeded || len(done.Status.Artifacts) != 1 {
		t.Fatalf("got %+v", done.Status)
	}
	if got := n.cat(t, done.Status.Artifacts[0]); got != "new\n" {
		t.Errorf("got %q", got)
	}
	n.awaitClean(t)
}

// artifactCat is what krt executes in the container.
func (n *node) artifactCat(t *testing.T, ref corev1alpha1.ArtifactRef) (stdout, stderr string, err error) {
	t.Helper()
	text, err := json.Marshal(ref)
	if err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "runtimed"), "artifact", "cat", "--state="+n.path("state"), "--ref="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &talk
	err = cmd.Run()
	return out.String(), talk.String(), err
}

func (n *node) cat(t *testing.T, ref corev1alpha1.ArtifactRef) string {
	t.Helper()
	out, talk, err := n.artifactCat(t, ref)
	if err != nil {
		t.Fatalf("artifact cat: %v\n%s", err, talk)
	}
	return out
}

func TestArtifactCat(t *testing.T) {
	n := startStoreNode(t)
	refs := n.produce(t, "producer", producer)
	if got := n.cat(t, refs["dist.tgz"]); got != "bytes\n" {
		t.Errorf("got %q", got)
	}
	if got := n.cat(t, refs["tree"]); len(got) != int(refs["tree"].SizeBytes) {
		t.Errorf("got %d bytes, want %d", len(got), refs["tree"].SizeBytes)
	}
	foreign := newNode(t).withStore(n.path("store"))
	foreign.start(t)
	changed := refs["dist.tgz"]
	changed.Digest = "sha256:" + strings.Repeat("0", 64)
	without := startNode(t)
	cases := map[string]struct {
		at   *node
		ref  corev1alpha1.ArtifactRef
		want string
	}{
		"of another namespace": {foreign, refs["dist.tgz"], "belongs to another namespace"},
		"missing":              {n, someRef(noRun, "x"), "no such artifact"},
		"changed":              {n, changed, "the bytes differ"},
		"without a store":      {without, refs["dist.tgz"], "has no artifactStore"},
	}
	for name, tc := range cases {
		out, talk, err := tc.at.artifactCat(t, tc.ref)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(talk, tc.want) {
			t.Errorf("%s: %v, %q on standard error, want %q", name, err, talk, tc.want)
		}
		if name != "changed" && out != "" {
			t.Errorf("%s: %q on standard output", name, out)
		}
	}
}

// runtime creates the Runtime of the node, with a status as the manager writes it before there are Pods.
func (n *node) runtime(t *testing.T) *corev1alpha1.Runtime {
	t.Helper()
	r := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "sh"}}
	r.Spec.Template.Spec.Containers = n.pod.Spec.DeepCopy().Containers[:1]
	r.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{Filesystem: &corev1alpha1.FilesystemStore{VolumeClaimName: "claim"}}
	shared.Create(t, r)
	r.Status.ObservedGeneration, r.Status.Replicas = r.Generation, 1
	if err := shared.Admin().Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestArtifactStoreReady breaks a store and mends it.
func TestArtifactStoreReady(t *testing.T) {
	n := newNode(t)
	r := n.runtime(t)
	if err := os.Mkdir(n.path("store"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.withStore(n.path("store"), "--artifact-recheck=200ms").start(t)
	await := func(status metav1.ConditionStatus, words string) {
		t.Helper()
		cluster.Eventually(t, "the condition to be "+string(status), func(ctx context.Context) (bool, error) {
			if err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return false, err
			}
			for _, c := range r.Status.Conditions {
				if c.Type == corev1alpha1.RuntimeConditionArtifactStoreReady && c.Status == status && strings.Contains(c.Message, words) {
					return true, nil
				}
			}
			return false, fmt.Errorf("conditions: %+v", r.Status.Conditions)
		})
	}
	await(metav1.ConditionTrue, "Pod "+n.pod.Name+": ")
	if err := os.Rename(n.path("store"), n.path("gone")); err != nil {
		t.Fatal(err)
	}
	run := awaitEnd(t, n.submit(t, "run", script(`touch "$KRUNTIME_ARTIFACTS_DIR/x"`)))
	if run.Status.Reason != corev1alpha1.RunReasonArtifactUploadFailed || !strings.Contains(run.Status.Message, "no such file or directory") {
		t.Errorf("got %+v", outcomeOf(run))
	}
	await(metav1.ConditionFalse, "no such file or directory")
	if err := os.Rename(n.path("gone"), n.path("store")); err != nil {
		t.Fatal(err)
	}
	await(metav1.ConditionTrue, "Pod "+n.pod.Name+": ")
}
