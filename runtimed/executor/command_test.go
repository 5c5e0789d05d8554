package executor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/staging"
)

func stage(t *testing.T, script string) (*staging.Directory, string) {
	t.Helper()
	root := t.TempDir()
	area, err := staging.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := area.Create("id", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dir.Close(), area.Close() })
	return dir, filepath.Join(root, "id")
}

func TestCommand(t *testing.T) {
	interpreter := []string{"/bin/sh", "-e"}
	dir, at := stage(t, "true")
	task := func(words ...string) corev1alpha1.RunMode {
		return corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: words}}
	}
	inline := &corev1alpha1.RunSource{Inline: "true"}
	cases := map[string]struct {
		spec corev1alpha1.RunSpec
		want []string
	}{
		"a script":                {corev1alpha1.RunSpec{Source: inline}, []string{"/bin/sh", "-e", at + "/script"}},
		"a script with arguments": {corev1alpha1.RunSpec{Source: inline, Mode: task("a", "")}, []string{"/bin/sh", "-e", at + "/script", "a", ""}},
		"a command":               {corev1alpha1.RunSpec{Mode: task("echo", "a b")}, []string{"echo", "a b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u"}, Spec: tc.spec}
			got := command(run, "id", "ns", interpreter, dir)
			if diff := cmp.Diff(tc.want, got.GetArgv()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.GetExecutionId() != "id" || got.GetWorkingDirectory() != at+"/work" {
				t.Errorf("got %v", got)
			}
		})
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-e"}, interpreter[:2]); diff != "" {
		t.Errorf("the interpreter was changed:\n%s", diff)
	}
}

func TestEnvironment(t *testing.T) {
	dir, at := stage(t, "true")
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u"}, Status: corev1alpha1.RunStatus{Attempt: 3}}
	run.Spec.Env = []corev1alpha1.EnvVar{{Name: "HOME", Value: "/mine"}, {Name: "EMPTY"}}
	var got [][2]string
	for _, v := range command(run, "id", "ns", nil, dir).GetEnv() {
		got = append(got, [2]string{v.GetName(), v.GetValue()})
	}
	want := [][2]string{
		{"KRUNTIME_OUTPUTS", at + "/outputs"}, {"KRUNTIME_ARTIFACTS_DIR", at + "/artifacts"}, {"KRUNTIME_WORKSPACE", at + "/work"},
		{"KRUNTIME_RUN_NAME", "r"}, {"KRUNTIME_RUN_UID", "u"}, {"KRUNTIME_NAMESPACE", "ns"}, {"KRUNTIME_ATTEMPT", "3"},
		{"HOME", at + "/home"}, {"TMPDIR", at + "/tmp"}, {"HOME", "/mine"}, {"EMPTY", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadOutputs(t *testing.T) {
	cases := map[string]struct {
		file   string
		values map[string]string
		err    *decision.OutputsError
	}{
		"nothing": {},
		"values":  {file: "a=b\n", values: map[string]string{"a": "b"}},
		"invalid": {file: "a", err: &decision.OutputsError{Message: `line 1 of the outputs file: neither key=value nor key<<DELIMITER: "a"`}},
		"too large": {file: "a=" + string(make([]byte, 5000)),
			err: &decision.OutputsError{TooLarge: true, Message: "line 1 of the outputs file: the value of a has 5000 bytes, more than 4096"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir, _ := stage(t, "true")
			if err := os.WriteFile(dir.Outputs(), []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			values, err := readOutputs(dir)
			if diff := cmp.Diff(tc.values, values); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.err, err); diff != "" {
				t.Errorf("-want +got error:\n%s", diff)
			}
		})
	}
}
