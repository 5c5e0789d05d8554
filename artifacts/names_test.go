package artifacts_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

const run types.UID = "2c24c1f0-9f8f-4f80-82d5-3dd16a12d1e6"

func TestNames(t *testing.T) {
	for name, test := range map[string]struct {
		name string
		ok   bool
	}{
		"an ordinary name":                 {"dist.tgz", true},
		"spaces":                           {" a b ", true},
		"unicode":                          {"日本語🙂", true},
		"a leading dash":                   {"-rf", true},
		"a percent sign":                   {"%2e%2e", true},
		"a backslash":                      {`a\b`, true},
		"three dots":                       {"...", true},
		"a hidden file":                    {".git", true},
		"255 bytes":                        {strings.Repeat("ü", 127) + "x", true},
		"256 bytes":                        {strings.Repeat("ü", 128), false},
		"nothing":                          {"", false},
		"the directory":                    {".", false},
		"the one above":                    {"..", false},
		"a slash":                          {"a/b", false},
		"a line break":                     {"a\nb", false},
		"NUL":                              {"a\x00", false},
		"DEL":                              {"\x7f", false},
		"a control character of the upper": {"a\u0085", false},
		"bytes that are not UTF-8":         {"a\xff", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := artifacts.CheckName(test.name)
			if (err == nil) != test.ok {
				t.Errorf("got %v, want ok: %t", err, test.ok)
			}
			if err != nil && test.name != "" && !strings.Contains(err.Error(), fmt.Sprintf("%q", test.name)) {
				t.Errorf("the error does not name it: %v", err)
			}
			uid, got, err := artifacts.ParsePath(artifacts.Path(run, test.name))
			if test.ok && (err != nil || uid != run || got != test.name) {
				t.Errorf("its path came back as Run %q, name %q and error %v", uid, got, err)
			}
			if !test.ok && !errors.Is(err, artifacts.ErrOutside) {
				t.Errorf("its path gave %v, want %v", err, artifacts.ErrOutside)
			}
		})
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for name, path := range map[string]string{
		"nothing":               "",
		"a name":                "a",
		"an absolute path":      "/runs/" + string(run) + "/artifacts/a",
		"a path below another":  "x/runs/" + string(run) + "/artifacts/a",
		"the owner":             "runs/" + string(run) + "/owner.json",
		"the directory":         "runs/" + string(run) + "/artifacts/",
		"a path upwards":        "runs/" + string(run) + "/artifacts/../owner.json",
		"a path below":          "runs/" + string(run) + "/artifacts/a/b",
		"two slashes":           "runs//" + string(run) + "/artifacts/a",
		"no Run":                "runs//artifacts/a",
		"a Run that is above":   "runs/../artifacts/a",
		"a Run of upper case":   "runs/" + strings.ToUpper(string(run)) + "/artifacts/a",
		"a Run without dashes":  "runs/" + strings.ReplaceAll(string(run), "-", "0") + "/artifacts/a",
		"a Run of dashes":       "runs/" + strings.Repeat("-", 36) + "/artifacts/a",
		"a Run and another one": "runs/" + string(run) + "/artifacts/" + string(run) + "/artifacts/a",
	} {
		t.Run(name, func(t *testing.T) {
			if uid, got, err := artifacts.ParsePath(path); !errors.Is(err, artifacts.ErrOutside) {
				t.Errorf("got Run %q, name %q and error %v, want %v", uid, got, err, artifacts.ErrOutside)
			}
		})
	}
}

func TestRefs(t *testing.T) {
	path := artifacts.Path(run, "a")
	for name, test := range map[string]struct {
		ref  corev1alpha1.ArtifactRef
		path string
		ok   bool
	}{
		"one of the store":    {corev1alpha1.ArtifactRef{Name: "a", Driver: corev1alpha1.ArtifactDriverS3}, path, true},
		"one of another":      {corev1alpha1.ArtifactRef{Name: "a", Driver: corev1alpha1.ArtifactDriverFilesystem}, path, false},
		"one of another name": {corev1alpha1.ArtifactRef{Name: "b", Driver: corev1alpha1.ArtifactDriverS3}, path, false},
		"one of no path":      {corev1alpha1.ArtifactRef{Name: "a", Driver: corev1alpha1.ArtifactDriverS3}, "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := artifacts.CheckRef(test.ref, corev1alpha1.ArtifactDriverS3, test.path)
			if (err == nil) != test.ok || err != nil && !errors.Is(err, artifacts.ErrOutside) {
				t.Errorf("got %v, want ok: %t", err, test.ok)
			}
		})
	}
}

func TestStoreErrors(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("round: %w", artifacts.NewStoreError("storing", "no\n  space\x00 left", true, cause))
	if got, want := err.Error(), "round: storing: no space left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !artifacts.IsPassing(err) || !errors.Is(err, cause) {
		t.Errorf("got passing %t, cause %t, want both", artifacts.IsPassing(err), errors.Is(err, cause))
	}
	if artifacts.IsPassing(artifacts.NewStoreError("a", "b", false, cause)) || artifacts.IsPassing(cause) {
		t.Error("errors that stay count as passing")
	}
	long := artifacts.NewStoreError("storing", strings.Repeat("ü", 1000), false, cause)
	if len(long.Words) > 512 || !strings.HasSuffix(long.Words, "ü …") {
		t.Errorf("got %d bytes: %q", len(long.Words), long.Words)
	}
}
