package filesystem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/filesystem"
	"kruntimes.io/kruntimes/test/artifactstore"
)

const run types.UID = "2c24c1f0-9f8f-4f80-82d5-3dd16a12d1e6"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// files lists the regular files below a directory.
func files(tb testing.TB, dir string) (visible, unfinished []string) {
	tb.Helper()
	must(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if strings.Contains(rel, "/unfinished/") {
			unfinished = append(unfinished, rel)
		} else {
			visible = append(visible, rel)
		}
		return err
	}))
	return visible, unfinished
}

func at(path string) corev1alpha1.ArtifactLocation {
	return corev1alpha1.ArtifactLocation{Filesystem: &corev1alpha1.FilesystemLocation{Path: path}}
}

func TestStore(t *testing.T) {
	artifactstore.Test(t, func(t *testing.T) artifactstore.Subject {
		dir := t.TempDir()
		path := artifacts.Path(run, "a")
		return artifactstore.Subject{
			Store: filesystem.New(dir), Other: filesystem.New(dir), Driver: corev1alpha1.ArtifactDriverFilesystem, At: at,
			Objects: func(tb testing.TB) []string {
				tb.Helper()
				visible, _ := files(tb, dir)
				return visible
			},
			Unfinished: func(tb testing.TB) int {
				tb.Helper()
				_, unfinished := files(tb, dir)
				return len(unfinished)
			},
			Replace: func(tb testing.TB, path string, content []byte) {
				tb.Helper()
				must(tb, os.WriteFile(filepath.Join(dir, path), content, 0o600))
			},
			Elsewhere: map[string]corev1alpha1.ArtifactRef{
				"an object of a bucket": {Name: "a", Driver: corev1alpha1.ArtifactDriverS3, Location: corev1alpha1.ArtifactLocation{
					S3: &corev1alpha1.S3Location{Bucket: "bucket", Key: path},
				}},
				"an address of another driver": {Name: "a", Driver: corev1alpha1.ArtifactDriverS3, Location: at(path)},
				"an address without a place":   {Name: "a", Driver: corev1alpha1.ArtifactDriverFilesystem},
			},
		}
	})
}

// claimed returns a store with a Run that has one artifact.
func claimed(t *testing.T) (store *filesystem.Store, dir string, ref corev1alpha1.ArtifactRef) {
	t.Helper()
	dir = t.TempDir()
	store = filesystem.New(dir)
	must(t, store.Claim(t.Context(), run, artifacts.Owner{Run: "r"}))
	ref, err := store.Put(t.Context(), object("a"), strings.NewReader("content"))
	must(t, err)
	return store, dir, ref
}

func object(name string) artifacts.Object {
	return artifacts.Object{Run: run, Name: name, Type: corev1alpha1.ArtifactFile}
}

// everything does all that a store can with the Run, and returns the errors by what was done.
func everything(ctx context.Context, store *filesystem.Store, ref corev1alpha1.ArtifactRef) map[string]error {
	got := map[string]error{"check": store.Check(ctx), "claim": store.Claim(ctx, run, artifacts.Owner{Run: "r"})}
	_, got["owner"] = store.Owner(ctx, run)
	_, got["put"] = store.Put(ctx, object("a"), strings.NewReader("other"))
	if r, err := store.Open(ctx, ref); err == nil {
		_, got["open"] = io.Copy(io.Discard, r)
		r.Close()
	} else {
		got["open"] = err
	}
	for _, err := range store.Claims(ctx) {
		got["claims"] = err
	}
	got["remove"] = store.Remove(ctx, run)
	return got
}

func TestStoreThatIsNotThere(t *testing.T) {
	for name, test := range map[string]struct {
		gone func(t *testing.T, dir string)
		want string
	}{
		"a directory that is gone": {
			gone: func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, want: "no such file or directory",
		},
		"a file in its place": {
			gone: func(t *testing.T, dir string) {
				must(t, os.RemoveAll(dir))
				must(t, os.WriteFile(dir, nil, 0o600))
			},
			want: "not a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, dir, ref := claimed(t)
			test.gone(t, dir)
			for doing, err := range everything(t.Context(), store, ref) {
				var failed *artifacts.StoreError
				if !errors.As(err, &failed) || failed.Words != dir+": "+test.want {
					t.Errorf("%s: got %v, want the words %q", doing, err, dir+": "+test.want)
				}
			}
		})
	}
}

// TestLinksAreNotFollowed moves a part of the store away and plants a link to it: outside, and at another place inside.
func TestLinksAreNotFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		path  string
		opens bool // since the link is replaced, or not on the way
	}{
		"the directory of all Runs":  {"runs", false},
		"the directory of the Run":   {"runs/" + string(run), false},
		"the directory of artifacts": {"runs/" + string(run) + "/artifacts", false},
		"the artifact":               {"runs/" + string(run) + "/artifacts/a", true},
		"the owner":                  {"runs/" + string(run) + "/owner.json", true},
		"what is unfinished":         {"runs/" + string(run) + "/unfinished", true},
	} {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, inside %t", name, inside), func(t *testing.T) {
				store, dir, ref := claimed(t)
				ref.Digest, ref.SizeBytes = "", 0
				moved := filepath.Join(t.TempDir(), "moved")
				target := moved
				if inside {
					moved = filepath.Join(dir, "moved")
					target = strings.Repeat("../", strings.Count(test.path, "/")) + "moved"
				}
				must(t, os.Rename(filepath.Join(dir, test.path), moved))
				must(t, os.Symlink(target, filepath.Join(dir, test.path)))
				before := content(t, moved)
				got := everything(t.Context(), store, ref)
				if after := content(t, moved); after != before {
					t.Errorf("the target of the link is %q, want %q", after, before)
				}
				if (got["open"] == nil) != test.opens {
					t.Errorf("opening gave %v, want it to work: %t", got["open"], test.opens)
				}
			})
		}
	}
}

// content is all that lies at a place.
func content(tb testing.TB, at string) string {
	tb.Helper()
	var all strings.Builder
	must(tb, filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all.WriteString(path + "\n")
		if d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			all.Write(content)
			return err
		}
		return nil
	}))
	return all.String()
}

func TestLinkInPlaceOfAnArtifact(t *testing.T) {
	store, dir, ref := claimed(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	path := filepath.Join(dir, artifacts.Path(run, "a"))
	must(t, os.Remove(path))
	must(t, os.Symlink(secret, path))
	ref.Digest, ref.SizeBytes = "", 0
	_, err := store.Open(t.Context(), ref)
	var failed *artifacts.StoreError
	if !errors.As(err, &failed) || failed.Words != "is a symbolic link" {
		t.Errorf("opening a link: got %v", err)
	}
	_, err = store.Put(t.Context(), object("a"), strings.NewReader("new"))
	must(t, err)
	if got := content(t, secret); got != secret+"\nsecret" {
		t.Errorf("the target of the link is %q", got)
	}
}

func TestFIFOIsNotWaitedFor(t *testing.T) {
	store, dir, ref := claimed(t)
	path := filepath.Join(dir, artifacts.Path(run, "a"))
	must(t, os.Remove(path))
	mkfifo(t, path)
	if _, err := store.Open(t.Context(), ref); err == nil || !strings.HasSuffix(err.Error(), ": is a FIFO") {
		t.Errorf("opening a FIFO: got %v", err)
	}
}

func TestLeftoversOfACrash(t *testing.T) {
	store, dir, _ := claimed(t)
	half := filepath.Join(dir, "runs", string(run), "unfinished", "half")
	must(t, os.WriteFile(half, []byte("half"), 0o600))
	bare := filepath.Join(dir, "runs", "00000000-0000-0000-0000-000000000001")
	must(t, os.MkdirAll(filepath.Join(bare, "unfinished"), 0o700)) // died while it claimed
	for _, foreign := range []string{"lost+found", "runs/.snapshot"} {
		must(t, os.MkdirAll(filepath.Join(dir, foreign), 0o700))
	}
	n := 0
	for claim, err := range store.Claims(t.Context()) {
		must(t, err)
		if n++; claim.Run != run {
			t.Errorf("listed Run %s, want %s", claim.Run, run)
		}
	}
	if n != 1 {
		t.Errorf("listed %d Runs, want 1", n)
	}
	must(t, store.Remove(t.Context(), run))
	if _, err := os.Lstat(filepath.Join(dir, "runs", string(run))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a removed Run: got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestArtifactsWithoutOwner(t *testing.T) {
	store, dir, _ := claimed(t)
	must(t, os.Remove(filepath.Join(dir, "runs", string(run), "owner.json")))
	for claim, err := range store.Claims(t.Context()) {
		if claim.Run != run || !errors.Is(err, artifacts.ErrUnclaimed) {
			t.Errorf("got Run %s and %v, want %s and %v", claim.Run, err, run, artifacts.ErrUnclaimed)
		}
	}
	_, err := store.Put(t.Context(), object("b"), bytes.NewReader(nil))
	if !errors.Is(err, artifacts.ErrUnclaimed) {
		t.Errorf("got %v, want %v", err, artifacts.ErrUnclaimed)
	}
}

func TestModesKeepOthersOut(t *testing.T) {
	_, dir, _ := claimed(t)
	must(t, filepath.WalkDir(filepath.Join(dir, "runs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}))
}
