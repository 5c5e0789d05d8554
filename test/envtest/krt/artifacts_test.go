package krt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/artifacts/archive"
	"kruntimes.io/kruntimes/krt/cli"
)

// store is what runtimed of a Pod would read from: content by path.
type store map[string]string

// cat stands in for "runtimed artifact cat".
func (s store) cat(argv []string, out, errOut io.Writer) error {
	ref := corev1alpha1.ArtifactRef{}
	text, found := strings.CutPrefix(argv[len(argv)-1], "--ref=")
	want := []string{"/runtimed", "artifact", "cat", "--state=/kruntimes/state"}
	if diff := cmp.Diff(want, argv[:len(argv)-1]); diff != "" || !found || json.Unmarshal([]byte(text), &ref) != nil {
		fmt.Fprintf(errOut, "unexpected command %q\n", argv)
		return errors.New("unexpected command")
	}
	content, ok := s[ref.Location.Filesystem.Path]
	if !ok {
		fmt.Fprintf(errOut, "runtimed: reading artifact %q: no such artifact\n", ref.Name)
		return errors.New("no such artifact")
	}
	_, err := io.WriteString(out, content)
	return err
}

// add stores content and returns its address.
func (s store) add(run *corev1alpha1.Run, name string, kind corev1alpha1.ArtifactType, content string) corev1alpha1.ArtifactRef {
	sum := sha256.Sum256([]byte(content))
	path := fmt.Sprintf("runs/%s/artifacts/%s", run.UID, name)
	s[path] = content
	return corev1alpha1.ArtifactRef{Name: name, Driver: corev1alpha1.ArtifactDriverFilesystem, Type: kind, SizeBytes: int64(len(content)),
		Digest:   "sha256:" + hex.EncodeToString(sum[:]),
		Location: corev1alpha1.ArtifactLocation{Filesystem: &corev1alpha1.FilesystemLocation{Path: path}}}
}

// directory packs a directory with one file.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("<h1>hello</h1>"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	var out bytes.Buffer
	if err := archive.Write(t.Context(), &out, root, archive.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestArtifactsOfARun downloads through the API server and a Node, as from a cluster.
func TestArtifactsOfARun(t *testing.T) {
	namespace := shared.Namespace(t)
	config := kubeconfig(t, shared.Config(), namespace)
	k := newKubelet(t, "artifacts")
	kept := store{}
	k.execute = kept.cat
	k.pod(t, namespace, "pod")
	if got := run(t, config, "", "run", "make", "-r", "bash", "--", "true"); got.code != cli.ExitOK {
		t.Fatalf("creating the Run: %+v", got)
	}
	r := onlyRun(t, namespace)
	large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	gone := kept.add(r, "gone", corev1alpha1.ArtifactFile, "x")
	delete(kept, gone.Location.Filesystem.Path)
	become(t, r, func(s *corev1alpha1.RunStatus) {
		s.Artifacts = []corev1alpha1.ArtifactRef{kept.add(r, "large file", corev1alpha1.ArtifactFile, large),
			kept.add(r, "site", corev1alpha1.ArtifactDirectory, directory(t)), gone}
	})
	if got := run(t, config, "", "artifacts", "list", "run", "make", "-o", "name"); got.code != cli.ExitOK || got.out != "gone\nlarge file\nsite\n" {
		t.Errorf("list: %+v", got)
	}
	dir := t.TempDir()
	got := run(t, config, "", "artifacts", "download", "run", "make", "large file", "site", "-d", dir)
	if got.code != cli.ExitOK || got.out != filepath.Join(dir, "large file")+"\n"+filepath.Join(dir, "site")+"\n" || got.errOut != "" {
		t.Errorf("download: %+v", got)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "large file")); err != nil || string(content) != large {
		t.Errorf("the file holds %d bytes (%v)", len(content), err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "site", "index.html")); err != nil || string(content) != "<h1>hello</h1>" {
		t.Errorf("the directory's file holds %q (%v)", content, err)
	}
	got = run(t, config, "", "artifacts", "download", "run", "make", "gone", "-d", dir)
	const want = "krt: downloading \"gone\": reading it in Pod pod: runtimed: reading artifact \"gone\": no such artifact\n"
	if got.code != cli.ExitFailed || got.errOut != want {
		t.Errorf("what the store has lost: %+v, want %q", got, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("there are %v (%v)", entries, err)
	}
	if got := run(t, config, "", "describe", "run", "make"); got.code != cli.ExitOK || !strings.Contains(got.out, "large file") {
		t.Errorf("describe: %+v", got)
	}
}

// TestArtifactsOfAWorkflowRun are called by their jobs. Who may not execute in Pods learns which right is missing.
func TestArtifactsOfAWorkflowRun(t *testing.T) {
	namespace := shared.Namespace(t)
	config := kubeconfig(t, shared.Config(), namespace)
	k := newKubelet(t, "artifacts-of-jobs")
	kept := store{}
	k.execute = kept.cat
	k.pod(t, namespace, "pod")
	made := &corev1alpha1.Run{}
	made.UID = "0b6c1f0e-5a43-4a0e-8f0e-3a1d1b1c1d1e"
	ci := &workflowsv1alpha1.WorkflowRun{}
	ci.Namespace, ci.Name = namespace, "ci"
	ci.Spec.Jobs = map[string]workflowsv1alpha1.Job{"build": {RunsOn: "bash", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}
	shared.Create(t, ci)
	before := client.MergeFrom(ci.DeepCopy())
	ci.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowSucceeded, Jobs: map[string]workflowsv1alpha1.JobStatus{
		"build": {Phase: workflowsv1alpha1.JobSucceeded, Artifacts: map[string]corev1alpha1.ArtifactRef{
			"dist.tgz": kept.add(made, "dist.tgz", corev1alpha1.ArtifactFile, "packed")}}}}
	if err := shared.Admin().Status().Patch(t.Context(), ci, before); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	got := run(t, config, "", "artifacts", "download", "workflowrun", "ci", "-d", dir)
	if got.code != cli.ExitOK || got.out != filepath.Join(dir, "build", "dist.tgz")+"\n" {
		t.Errorf("download: %+v", got)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "build", "dist.tgz")); err != nil || string(content) != "packed" {
		t.Errorf("the file holds %q (%v)", content, err)
	}
	if got := run(t, config, "", "describe", "workflowrun", "ci"); !strings.Contains(got.out, "Artifacts\n  build/dist.tgz  6 B\n") {
		t.Errorf("describe: %+v", got)
	}
	reader := kubeconfig(t, shared.User(t, namespace, "reader",
		rbacv1.PolicyRule{APIGroups: []string{"workflows.kruntimes.io"}, Resources: []string{"workflowruns"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}), namespace)
	got = run(t, reader, "", "artifacts", "download", "workflowrun", "ci", "-d", t.TempDir())
	if got.code != cli.ExitFailed || !strings.Contains(got.errOut, "hint: it takes the right to create pods/exec in namespace "+namespace) {
		t.Errorf("without the right to execute: %+v", got)
	}
}
