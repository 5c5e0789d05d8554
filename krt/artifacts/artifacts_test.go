package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/artifacts/archive"
	"kruntimes.io/kruntimes/artifacts/beneath"
	"kruntimes.io/kruntimes/krt/cli"
)

const uid = "0b6c1f0e-5a43-4a0e-8f0e-3a1d1b1c1d1e"

// stored is an artifact whose content is known.
func stored(name string, kind corev1alpha1.ArtifactType, content string) corev1alpha1.ArtifactRef {
	sum := sha256.Sum256([]byte(content))
	return corev1alpha1.ArtifactRef{
		Name: name, Driver: corev1alpha1.ArtifactDriverFilesystem, Type: kind, SizeBytes: int64(len(content)),
		Digest:   "sha256:" + hex.EncodeToString(sum[:]),
		Location: corev1alpha1.ArtifactLocation{Filesystem: &corev1alpha1.FilesystemLocation{Path: "runs/" + uid + "/artifacts/" + name}},
	}
}

// packed is an archive of a directory with a file in a read-only directory.
func packed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sealed := filepath.Join(dir, "sealed")
	if err := os.Mkdir(sealed, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sealed, "page"), []byte("hello"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sealed, 0o555); err != nil {
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

// world is a namespace with a Run, a WorkflowRun and a ready Pod.
type world struct {
	objects []client.Object
	// contents are what the store holds, by name of the artifact; failures what runtimed says instead.
	contents map[string]string
	failures map[string]error
	out, err bytes.Buffer
	dir      string
	readIn   []string
}

func newWorld(t *testing.T, artifacts ...corev1alpha1.ArtifactRef) *world {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
	run := &corev1alpha1.Run{ObjectMeta: meta("nightly"), Spec: corev1alpha1.RunSpec{Runtime: "sh"},
		Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded, Artifacts: artifacts}}
	kept := map[string]corev1alpha1.ArtifactRef{}
	for _, a := range artifacts {
		kept[a.Name] = a
	}
	workflowRun := &workflowsv1alpha1.WorkflowRun{ObjectMeta: meta("ci"),
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{"build": {RunsOn: "${{ 'sh' }}"}, "test": {RunsOn: "sh"}}},
		Status: workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, Jobs: map[string]workflowsv1alpha1.JobStatus{
			"build": {Artifacts: kept}, "test": {}}}}
	return &world{objects: []client.Object{run, workflowRun, pod("sh-b", "sh", true)}, contents: map[string]string{}, failures: map[string]error{}, dir: t.TempDir()}
}

func pod(name, runtime string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{corev1alpha1.LabelRuntime: runtime},
			Annotations: map[string]string{corev1alpha1.AnnotationRuntime: runtime}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func (w *world) factory() *cli.Factory {
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(w.objects...).Build()
	f := cli.NewFactory(genericiooptions.IOStreams{Out: &w.out, ErrOut: &w.err}, func() time.Time { return time.Unix(0, 0) })
	f.Client = func() (client.WithWatch, error) { return c, nil }
	f.Namespace = func() (string, error) { return "team", nil }
	return f
}

// run executes the command, reading artifacts from what the world holds.
func (w *world) run(t *testing.T, args ...string) error {
	t.Helper()
	f := w.factory()
	cmd := NewCmd(f)
	cmd.AddCommand(newDownload(f, func(ctx context.Context, o *downloadOptions) error {
		o.read = w.read
		return download(ctx, o)
	}))
	for _, sub := range cmd.Commands() {
		if sub.Name() == "download" {
			cmd.RemoveCommand(sub) // the real one, which comes first
			break
		}
	}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(t.Context())
}

func (w *world) read(_ context.Context, namespace, pod string, ref corev1alpha1.ArtifactRef, out io.Writer) error {
	w.readIn = append(w.readIn, namespace+"/"+pod)
	content := w.contents[ref.Name]
	for len(content) > 0 {
		n := min(len(content), 1000)
		if _, err := io.WriteString(out, content[:n]); err != nil {
			return err
		}
		content = content[n:]
	}
	return w.failures[ref.Name]
}

// files are what is below the directory of downloads: content by path, and the modes of directories.
func (w *world) files(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == w.dir {
			return err
		}
		name, err := filepath.Rel(w.dir, path)
		if err != nil || d.IsDir() {
			found[name+"/"] = ""
			return err
		}
		content, err := os.ReadFile(path)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = beneath.RemoveAll(w.dir) })
	return found
}

func TestDownload(t *testing.T) {
	site := packed(t)
	report := strings.Repeat("42 tests passed\n", 1000)
	three := func() []corev1alpha1.ArtifactRef {
		return []corev1alpha1.ArtifactRef{stored("site", corev1alpha1.ArtifactDirectory, site),
			stored("report ü.txt", corev1alpha1.ArtifactFile, report), stored("empty", corev1alpha1.ArtifactFile, "")}
	}
	whole := map[string]string{"site/": "", "site/sealed/": "", "site/sealed/page": "hello", "report ü.txt": report, "empty": ""}
	cases := map[string]struct {
		args   []string
		change func(*world)
		// want are the files in the end, which the paths that are printed name as well.
		want    map[string]string
		wantOut []string
		wantErr string
	}{
		"all of a Run": {args: []string{"run", "nightly"}, want: whole, wantOut: []string{"empty", "report ü.txt", "site"}},
		"one of a Run": {args: []string{"nightly", "report ü.txt"}, want: map[string]string{"report ü.txt": report}, wantOut: []string{"report ü.txt"}},
		"of a WorkflowRun": {args: []string{"workflowrun/ci", "build/site", "build/empty"},
			want:    map[string]string{"build/": "", "build/site/": "", "build/site/sealed/": "", "build/site/sealed/page": "hello", "build/empty": ""},
			wantOut: []string{"build/empty", "build/site"}},
		"one that is not there": {args: []string{"run", "nightly", "report"}, want: map[string]string{}, wantErr: `Run nightly has no artifact "report"`},
		"other bytes": {args: []string{"nightly", "report ü.txt"}, want: map[string]string{},
			change:  func(w *world) { w.contents["report ü.txt"] = strings.Replace(report, "42", "43", 1) },
			wantErr: `downloading "report ü.txt": what has arrived is not what was stored: its digest is sha256:`},
		"too few bytes": {args: []string{"nightly", "report ü.txt"}, want: map[string]string{},
			change:  func(w *world) { w.contents["report ü.txt"] = report[1:] },
			wantErr: `downloading "report ü.txt": 15999 bytes have arrived, and 16000 were stored`},
		"bytes after a directory": {args: []string{"nightly", "site"}, want: map[string]string{},
			change:  func(w *world) { w.contents["site"] = site + "x" },
			wantErr: `downloading "site": `},
		"half a directory": {args: []string{"nightly", "site"}, want: map[string]string{},
			change:  func(w *world) { w.contents["site"] = site[:len(site)/2] },
			wantErr: `downloading "site": `},
		"no archive": {args: []string{"nightly", "site"}, want: map[string]string{},
			change: func(w *world) {
				w.contents["site"] = report
				ref := stored("site", corev1alpha1.ArtifactDirectory, report)
				w.objects[0].(*corev1alpha1.Run).Status.Artifacts = []corev1alpha1.ArtifactRef{ref}
			},
			wantErr: `downloading "site": unpacking it: `},
		"a directory over the bound": {args: []string{"nightly", "site", "--max-size", "4"}, want: map[string]string{},
			wantErr: `downloading "site": unpacking it: `},
		"the store fails": {args: []string{"nightly", "report ü.txt", "empty"}, want: map[string]string{"empty": ""}, wantOut: []string{"empty"},
			change:  func(w *world) { w.failures["report ü.txt"] = errors.New("reading it in Pod sh-b: no such artifact") },
			wantErr: `downloading "report ü.txt": reading it in Pod sh-b: no such artifact`},
		"no ready Pod": {args: []string{"nightly", "empty"}, want: map[string]string{},
			change: func(w *world) {
				w.objects[2] = pod("sh-b", "sh", false)
				w.objects = append(w.objects, &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "sh"}})
			},
			wantErr: `downloading "empty": no Pod of Runtime sh is ready: artifacts are read through one`},
		"no Runtime": {args: []string{"nightly", "empty"}, want: map[string]string{},
			change:  func(w *world) { w.objects[2] = pod("sh-b", "sh", false) },
			wantErr: `downloading "empty": there is no Runtime sh: artifacts are read through its Pods`},
		"a name that leads elsewhere": {args: []string{"nightly"}, want: map[string]string{},
			change: func(w *world) {
				w.objects[0].(*corev1alpha1.Run).Status.Artifacts = []corev1alpha1.ArtifactRef{stored("../x", corev1alpha1.ArtifactFile, "")}
			},
			wantErr: `downloading "../x": artifact name "../x" holds a slash`},
		"nothing to download": {args: []string{"nightly"}, want: map[string]string{},
			change:  func(w *world) { w.objects[0].(*corev1alpha1.Run).Status.Artifacts = nil },
			wantErr: "Run nightly left no artifacts"},
		"no such Run": {args: []string{"other"}, want: map[string]string{}, wantErr: `there is no Run "other" in namespace "team"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, three()...)
			w.contents["site"], w.contents["report ü.txt"] = site, report
			if tc.change != nil {
				tc.change(w)
			}
			err := w.run(t, append([]string{"download", "-d", w.dir}, tc.args...)...)
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("got error %v", err)
			case tc.wantErr != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.wantErr)):
				t.Errorf("got error %v, want one that begins with %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, w.files(t)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			var wantOut string
			for _, path := range tc.wantOut {
				wantOut += filepath.Join(w.dir, path) + "\n"
			}
			if diff := cmp.Diff(wantOut, w.out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsThereIsNotOverwritten(t *testing.T) {
	w := newWorld(t, stored("report", corev1alpha1.ArtifactFile, "new"))
	w.contents["report"] = "new"
	if err := os.WriteFile(filepath.Join(w.dir, "report"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := w.run(t, "download", "nightly", "-d", w.dir)
	if err == nil || !strings.HasSuffix(err.Error(), "report exists") {
		t.Errorf("got error %v", err)
	}
	if diff := cmp.Diff(map[string]string{"report": "old"}, w.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestWhichPodIsAsked: one that is ready and stays, of exactly this Runtime.
func TestWhichPodIsAsked(t *testing.T) {
	leaving := pod("sh-a", "sh", true)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"x/y"}
	namesake := pod("sh-0", "sh", true)
	namesake.Annotations[corev1alpha1.AnnotationRuntime] = "sh-and-more"
	for name, tc := range map[string]struct {
		pods []client.Object
		want string
	}{
		"one that stays":              {[]client.Object{leaving, pod("sh-b", "sh", true), pod("sh-c", "sh", true), pod("sh-0", "sh", false)}, "team/sh-b"},
		"one that leaves, if need be": {[]client.Object{leaving, namesake, pod("zsh-a", "zsh", true)}, "team/sh-a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, stored("x", corev1alpha1.ArtifactFile, ""))
			w.objects = append(w.objects[:2], tc.pods...)
			if err := w.run(t, "download", "nightly", "-d", w.dir); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.want}, w.readIn); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestList(t *testing.T) {
	report := stored("report", corev1alpha1.ArtifactFile, strings.Repeat("x", 1536))
	site := stored("site", corev1alpha1.ArtifactDirectory, "y")
	cases := map[string]struct {
		args         []string
		none         bool
		want, errOut string
	}{
		"a Run": {args: []string{"run", "nightly"}, want: "NAME     TYPE        SIZE       DIGEST\n" +
			"report   File        1.50 KiB   " + report.Digest + "\nsite     Directory   1 B        " + site.Digest + "\n"},
		"a WorkflowRun": {args: []string{"wfrun/ci"}, want: "NAME           TYPE        SIZE       DIGEST\n" +
			"build/report   File        1.50 KiB   " + report.Digest + "\nbuild/site     Directory   1 B        " + site.Digest + "\n"},
		"names":             {args: []string{"workflowrun", "ci", "-o", "name"}, want: "build/report\nbuild/site\n"},
		"nothing":           {args: []string{"nightly"}, none: true, errOut: "Run nightly left no artifacts.\n"},
		"nothing yet":       {args: []string{"workflowrun", "ci"}, none: true, errOut: "WorkflowRun ci has no artifacts yet.\n"},
		"nothing, as YAML":  {args: []string{"nightly", "-o", "yaml"}, none: true, want: "[]\n"},
		"nothing, as JSON":  {args: []string{"nightly", "-o", "json"}, none: true, want: "[]\n"},
		"nothing, as names": {args: []string{"nightly", "-o", "name"}, none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site, report)
			if tc.none {
				w = newWorld(t)
			}
			if err := w.run(t, append([]string{"list"}, tc.args...)...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, w.out.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.errOut, w.err.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	run, workflow := cli.Target{Kind: cli.KindRun, Name: "a"}, cli.Target{Kind: cli.KindWorkflowRun, Name: "a"}
	cases := map[string]struct {
		args    []string
		want    cli.Target
		names   []string
		wantErr string
	}{
		"a name":                     {args: []string{"a"}, want: run, names: []string{}},
		"a kind and a name":          {args: []string{"run", "a"}, want: run, names: []string{}},
		"a Run that is called run":   {args: []string{"run"}, want: cli.Target{Kind: cli.KindRun, Name: "run"}, names: []string{}},
		"names of artifacts, sorted": {args: []string{"workflowrun/a", "j/y", "j/x", "j/y"}, want: workflow, names: []string{"j/x", "j/y"}},
		"a name and an artifact":     {args: []string{"a", "x"}, want: run, names: []string{"x"}},
		"nothing":                    {wantErr: "which Run or WorkflowRun?"},
		"another kind":               {args: []string{"runtime/a"}, wantErr: `"runtime/a" is neither a Run nor a WorkflowRun: write NAME, run/NAME or workflowrun/NAME`},
		"an empty artifact":          {args: []string{"a", ""}, wantErr: "the name of an artifact must not be empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target, names, err := parseArguments(tc.args)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr || cli.ExitCode(err) != cli.ExitUsage {
					t.Errorf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || target != tc.want {
				t.Errorf("got %v, error %v, want %v", target, err, tc.want)
			}
			if diff := cmp.Diff(tc.names, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &progress{out: &out, now: func() time.Time { return now }, name: "build/x", total: 4 << 20, began: now}
	write := func(bytes int, after time.Duration) {
		now = now.Add(after)
		if _, err := p.Write(make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	write(1<<20, 500*time.Millisecond)
	write(1<<20, 50*time.Millisecond)
	write(1<<20, 950*time.Millisecond)
	p.end()
	p.end()
	const line = "\r\x1b[K"
	want := line + "build/x  1.00 MiB of 4.00 MiB, 25 %" + line + "build/x  3.00 MiB of 4.00 MiB, 75 %, 2.00 MiB/s" + line
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
