// Package artifactstore holds the tests that every artifacts.Store must pass.
package artifactstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

// Subject is a store that is tested, and what the tests must know of it. Each test gets one of its own.
type Subject struct {
	// Store is empty.
	Store artifacts.Store
	// Other is another Store of the same place, as another process has one.
	Other artifacts.Store
	// Objects lists what is visible, as paths below the root or prefix.
	Objects func(tb testing.TB) []string
	// Unfinished counts what uploads have left that did not come to their end.
	Unfinished func(tb testing.TB) int
	// Replace puts other bytes in the place of an object.
	Replace func(tb testing.TB, path string, content []byte)
	// At returns the location of what lies at a path below the root or prefix, and Elsewhere addresses that are none of
	// this store, by what is wrong with them.
	At        func(path string) corev1alpha1.ArtifactLocation
	Driver    corev1alpha1.ArtifactDriver
	Elsewhere map[string]corev1alpha1.ArtifactRef
}

// Test runs all tests, each with a subject of its own.
func Test(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, s Subject){
		"Keeps what it is given":                             keeps,
		"Replaces an artifact":                               replaces,
		"Leaves nothing when the content fails":              contentFails,
		"Leaves nothing when the context ends":               contextEnds,
		"Bounds an artifact":                                 bounds,
		"Refuses what is no artifact":                        refuses,
		"Stores nothing of a Run that is not claimed":        unclaimed,
		"Opens nothing outside":                              outside,
		"Notices other bytes":                                notices,
		"Ends reading with the context":                      readingEnds,
		"Lists Runs":                                         lists,
		"Removes a Run and nothing else":                     removes,
		"Removes what is being uploaded":                     removesUploads,
		"Takes one object from several uploads at a time":    sameObject,
		"Takes one name from several Runs at a time":         sameName,
		"Checks itself and leaves no trace":                  checks,
		"Streams through a reader that gives little at once": little,
	} {
		t.Run(name, func(t *testing.T) { test(t, subject(t)) })
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// claim makes a Run.
func (s Subject) claim(tb testing.TB) types.UID {
	tb.Helper()
	run := uuid.NewUUID()
	must(tb, s.Store.Claim(tb.Context(), run, artifacts.Owner{NamespaceUID: "ns", Namespace: "team", Run: "r"}))
	return run
}

func object(run types.UID, name string) artifacts.Object {
	return artifacts.Object{Run: run, Name: name, Type: corev1alpha1.ArtifactFile}
}

func (s Subject) put(tb testing.TB, run types.UID, name string, content []byte) corev1alpha1.ArtifactRef {
	tb.Helper()
	ref, err := s.Store.Put(tb.Context(), object(run, name), bytes.NewReader(content))
	must(tb, err)
	return ref
}

// read reads an artifact as another process would.
func (s Subject) read(tb testing.TB, ref corev1alpha1.ArtifactRef) ([]byte, error) {
	tb.Helper()
	return readFrom(tb.Context(), s.Other, ref)
}

func readFrom(ctx context.Context, store artifacts.Store, ref corev1alpha1.ArtifactRef) ([]byte, error) {
	r, err := store.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

// random makes content that does not compress and that nobody else has.
func random(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.Read(content) // it never fails
	return content
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// only fails the test unless these are all visible objects beside owner.json of the Run.
func (s Subject) only(tb testing.TB, run types.UID, names ...string) {
	tb.Helper()
	want := map[string]bool{"runs/" + string(run) + "/owner.json": true}
	for _, name := range names {
		want[artifacts.Path(run, name)] = true
	}
	got := s.Objects(tb)
	for _, path := range got {
		if !want[path] {
			tb.Errorf("%q is visible", path)
		}
	}
	if len(got) != len(want) {
		tb.Errorf("visible are %q, want %d objects", got, len(want))
	}
}

// failing is content that ends with an error, after doing something.
type failing struct {
	io.Reader
	do  func()
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		if f.do != nil {
			f.do()
		}
		err = f.err
	}
	return n, err
}

// several sizes: empty, small, and more than any part or chunk, with and without a rest.
var sizes = []int{0, 1, 1<<20 + 1, 8 << 20, 16 << 20, 20<<20 + 7}

func keeps(t *testing.T, s Subject) {
	run := s.claim(t)
	for _, size := range sizes {
		content := random(size)
		ref := s.put(t, run, fmt.Sprintf("size %d", size), content)
		if ref.SizeBytes != int64(size) || ref.Digest != digest(content) || ref.CreatedAt == nil || ref.CreatedAt.IsZero() {
			t.Errorf("size %d: got address %+v with digest %s", size, ref, digest(content))
		}
		got, err := s.read(t, ref)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("size %d: got %d bytes and error %v", size, len(got), err)
		}
		var copied bytes.Buffer
		r, err := s.Other.Open(t.Context(), ref)
		must(t, err)
		if _, err := io.Copy(&copied, r); err != nil || !bytes.Equal(copied.Bytes(), content) {
			t.Errorf("size %d: copied %d bytes and got error %v", size, copied.Len(), err)
		}
		must(t, r.Close())
	}
	names(t, s)
}

func names(t *testing.T, s Subject) {
	t.Helper()
	run := s.claim(t)
	for _, name := range []string{
		"dist.tgz", "with spaces", " lead and trail ", "-rf", "...", ".hidden", "100%", "%2F", "a+b", "a&b=c?d#e", `back\slash`,
		`"quoted" 'too'`, "owner.json", "artifacts", "日本語", "e\u0301", "\u00e9", "🙂", "Case", "case", "~", "*", "<xml>&amp;",
		string(bytes.Repeat([]byte("n"), 255)), string(bytes.Repeat([]byte("ü"), 127)) + "x",
	} {
		ref := s.put(t, run, name, []byte(name))
		if want := s.At(artifacts.Path(run, name)); ref.Name != name || ref.Driver != s.Driver ||
			ref.Type != corev1alpha1.ArtifactFile || !sameLocation(ref.Location, want) {
			t.Errorf("name %q: got address %+v", name, ref)
		}
		if got, err := s.read(t, ref); err != nil || string(got) != name {
			t.Errorf("name %q: read %q and error %v", name, got, err)
		}
	}
}

func sameLocation(a, b corev1alpha1.ArtifactLocation) bool {
	if a.S3 != nil && b.S3 != nil {
		return *a.S3 == *b.S3
	}
	return a.Filesystem != nil && b.Filesystem != nil && *a.Filesystem == *b.Filesystem
}

func replaces(t *testing.T, s Subject) {
	run := s.claim(t)
	before := s.put(t, run, "a", random(9<<20))
	after := s.put(t, run, "a", []byte("short"))
	if got, err := s.read(t, after); err != nil || string(got) != "short" {
		t.Errorf("read %q and error %v", got, err)
	}
	if _, err := s.read(t, before); !errors.Is(err, artifacts.ErrDigest) {
		t.Errorf("reading what was replaced: got %v, want %v", err, artifacts.ErrDigest)
	}
	s.only(t, run, "a")
}

func contentFails(t *testing.T, s Subject) {
	for _, size := range sizes {
		run := s.claim(t)
		kept := s.put(t, run, "kept", []byte("kept"))
		for _, name := range []string{"kept", "new"} {
			why := errors.New("the file changed")
			_, err := s.Store.Put(t.Context(), object(run, name), &failing{Reader: bytes.NewReader(random(size)), err: why})
			var store *artifacts.StoreError
			if !errors.Is(err, why) || errors.As(err, &store) {
				t.Errorf("size %d: got %v, want %v", size, err, why)
			}
		}
		if got, err := s.read(t, kept); err != nil || string(got) != "kept" {
			t.Errorf("size %d: read %q and error %v", size, got, err)
		}
		s.only(t, run, "kept")
		if n := s.Unfinished(t); n != 0 {
			t.Errorf("size %d: left %d unfinished uploads", size, n)
		}
		must(t, s.Store.Remove(t.Context(), run))
	}
}

func contextEnds(t *testing.T, s Subject) {
	for _, size := range sizes {
		run := s.claim(t)
		why := errors.New("the Run was cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		content := io.MultiReader(
			&failing{Reader: bytes.NewReader(random(size)), do: func() { cancel(why) }, err: io.EOF}, bytes.NewReader(random(1<<20)))
		if _, err := s.Store.Put(ctx, object(run, "new"), content); !errors.Is(err, why) {
			t.Errorf("size %d: got %v, want %v", size, err, why)
		}
		s.only(t, run)
		if n := s.Unfinished(t); n != 0 {
			t.Errorf("size %d: left %d unfinished uploads", size, n)
		}
		must(t, s.Store.Remove(t.Context(), run))
	}
}

func bounds(t *testing.T, s Subject) {
	run := s.claim(t)
	for _, size := range sizes[1:] {
		content := random(size)
		exact := object(run, "exact")
		exact.MaxBytes = int64(size)
		_, err := s.Store.Put(t.Context(), exact, bytes.NewReader(content))
		must(t, err)
		larger := object(run, "larger")
		larger.MaxBytes = int64(size) - 1
		if size == 1 {
			continue // no bound
		}
		if _, err := s.Store.Put(t.Context(), larger, bytes.NewReader(content)); !errors.Is(err, artifacts.ErrTooLarge) {
			t.Errorf("size %d: got %v, want %v", size, err, artifacts.ErrTooLarge)
		}
	}
	s.only(t, run, "exact")
	if n := s.Unfinished(t); n != 0 {
		t.Errorf("left %d unfinished uploads", n)
	}
}

func refuses(t *testing.T, s Subject) {
	run := s.claim(t)
	for name, o := range map[string]artifacts.Object{
		"no name":            object(run, ""),
		"a path":             object(run, "a/b"),
		"the one above":      object(run, ".."),
		"a line break":       object(run, "a\nb"),
		"no Run":             object("", "a"),
		"a path of a Run":    object("../"+run[3:], "a"),
		"a type of nowadays": {Run: run, Name: "a", Type: "Link"},
	} {
		if _, err := s.Store.Put(t.Context(), o, bytes.NewReader(nil)); err == nil {
			t.Errorf("%s was stored", name)
		}
	}
	for _, other := range []types.UID{"", "..", "a/b", types.UID(string(run) + "/"), "UPPERCAS-0000-0000-0000-000000000000"} {
		if err := s.Store.Claim(t.Context(), other, artifacts.Owner{}); err == nil {
			t.Errorf("Run %q was claimed", other)
		}
		if err := s.Store.Remove(t.Context(), other); err == nil {
			t.Errorf("Run %q was removed", other)
		}
		if _, err := s.Store.Owner(t.Context(), other); err == nil {
			t.Errorf("Run %q has an owner", other)
		}
	}
	s.only(t, run)
}

func unclaimed(t *testing.T, s Subject) {
	run := uuid.NewUUID()
	for _, size := range []int{1, 9 << 20} {
		_, err := s.Store.Put(t.Context(), object(run, "a"), bytes.NewReader(random(size)))
		if !errors.Is(err, artifacts.ErrUnclaimed) {
			t.Errorf("size %d: got %v, want %v", size, err, artifacts.ErrUnclaimed)
		}
	}
	if got := s.Objects(t); len(got) != 0 {
		t.Errorf("%q are visible", got)
	}
	if _, err := s.Store.Owner(t.Context(), run); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("the owner of a Run that was never claimed: got %v, want %v", err, artifacts.ErrNotFound)
	}
}
