package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/filesystem"
	"kruntimes.io/kruntimes/runtimed/decision"
)

const (
	runUID    = types.UID("0f8fad5b-d9cb-469f-a165-70867728950e")
	namespace = types.UID("our-namespace")
	limit     = 1 << 20
)

// scene is a store on this machine, and a Mover for it.
type scene struct {
	t      *testing.T
	dir    string
	store  artifacts.Store
	failed atomic.Int32
	clock  clock.Clock
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	return &scene{t: t, dir: dir, store: filesystem.New(dir), clock: clock.RealClock{}}
}

func (s *scene) mover() *Mover {
	return New(Options{
		Store: s.store, Limits: decision.ArtifactLimits{MaxBytes: limit, MaxCount: 32}, Patience: time.Minute,
		Failed: func() { s.failed.Add(1) }, Worked: func() {}, Clock: s.clock, Log: logr.Discard(),
	})
}

// collection is what lies in dir: names that end in "/" are directories.
func collection(t *testing.T, dir string, names ...string) Collection {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	c := Collection{
		Run: runUID, Owner: artifacts.Owner{NamespaceUID: namespace, Namespace: "ns", Run: "r"}, Directory: root,
		Fence: func(context.Context) error { return nil },
	}
	for _, name := range names {
		object := decision.ArtifactObject{Name: strings.TrimSuffix(name, "/"), Type: corev1alpha1.ArtifactFile}
		if object.Name != name {
			object.Type = corev1alpha1.ArtifactDirectory
		}
		c.Objects = append(c.Objects, object)
	}
	return c
}

// write makes files, and the directories on the way to them; texts that begin with "->" are links.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(text, "->"); isLink {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// collect stores the files of a map, all top-level entries, and returns their addresses by name.
func (s *scene) collect(files map[string]string, names ...string) map[string]corev1alpha1.ArtifactRef {
	s.t.Helper()
	dir := s.t.TempDir()
	write(s.t, dir, files)
	refs, err := s.mover().Collect(s.t.Context(), collection(s.t, dir, names...))
	if err != nil {
		s.t.Fatal(err)
	}
	byName := map[string]corev1alpha1.ArtifactRef{}
	for _, ref := range refs {
		byName[ref.Name] = ref
	}
	return byName
}

func TestCollect(t *testing.T) {
	s := newScene(t)
	refs := s.collect(map[string]string{"dist.tgz": "bytes", "tree/a": "1", "tree/sub/b": "2"}, "dist.tgz", "tree/")
	var text bytes.Buffer
	content, err := OpenOwned(t.Context(), s.store, namespace, refs["dist.tgz"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&text, content); err != nil || text.String() != "bytes" {
		t.Errorf("got %q, %v", text.String(), err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
	owner, err := s.store.Owner(t.Context(), runUID)
	if diff := cmp.Diff(artifacts.Owner{NamespaceUID: namespace, Namespace: "ns", Run: "r"}, owner); err != nil || diff != "" {
		t.Errorf("owner: %v, -want +got:\n%s", err, diff)
	}
	if got := refs["tree"].Type; got != corev1alpha1.ArtifactDirectory {
		t.Errorf("the tree is a %s", got)
	}
}

func TestCollectRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("password"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		files map[string]string
		name  string
		words []string
	}{
		"a link in place of a file":       {map[string]string{"a": "->" + outside}, "a", []string{`"a"`, "symbolic link"}},
		"a link in place of a directory":  {map[string]string{"a": "->" + filepath.Dir(outside)}, "a/", []string{`"a"`, "symbolic link"}},
		"a link inside of a directory":    {map[string]string{"a/x": "1", "a/sub/l": "->" + outside}, "a/", []string{`"a"`, `"sub/l"`, "symbolic link"}},
		"a file that is larger than told": {map[string]string{"a": strings.Repeat("x", limit+1)}, "a", []string{`"a"`, "larger than allowed"}},
		"a directory that is too large":   {map[string]string{"a/1": strings.Repeat("x", limit/2+1), "a/2": strings.Repeat("x", limit/2)}, "a/", []string{`"a"`, "more than 1048576 bytes"}},
		"a file that is gone":             {nil, "a", []string{`"a"`, "changed"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, dir := newScene(t), t.TempDir()
			write(t, dir, tc.files)
			_, err := s.mover().Collect(t.Context(), collection(t, dir, tc.name))
			if err == nil {
				t.Fatal("it was stored")
			}
			for _, word := range tc.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("want %s in %q", word, err)
				}
			}
			if s.failed.Load() > 0 {
				t.Error("the store is blamed")
			}
			if left, err := filepath.Glob(filepath.Join(s.dir, "runs/*/artifacts/*")); err != nil || len(left) > 0 {
				t.Errorf("visible: %v, %v", left, err)
			}
		})
	}
}

func TestCollectStopsAtTheFence(t *testing.T) {
	s, dir := newScene(t), t.TempDir()
	write(t, dir, map[string]string{"a": "1", "b": "2"})
	c := collection(t, dir, "a", "b")
	notOurs := errors.New("not ours")
	asked := 0
	c.Fence = func(context.Context) error {
		if asked++; asked > 1 {
			return notOurs
		}
		return nil
	}
	if _, err := s.mover().Collect(t.Context(), c); !errors.Is(err, notOurs) {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "runs/*/artifacts/*")); len(left) != 1 {
		t.Errorf("stored: %v, want only the first one", left)
	}
}

// faulty is a store whose Put does something else.
type faulty struct {
	artifacts.Store
	put func(ctx context.Context, object artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error)
}

func (f *faulty) Put(ctx context.Context, object artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error) {
	return f.put(ctx, object, content)
}

func TestCollectTriesAgain(t *testing.T) {
	for name, words := range map[string]string{"a directory": "d/", "a file": "f"} {
		t.Run(name, func(t *testing.T) {
			s, dir := newScene(t), t.TempDir()
			write(t, dir, map[string]string{"f": "text", "d/f": "text"})
			whole, calls := s.store, 0
			s.store = &faulty{Store: whole, put: func(ctx context.Context, o artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error) {
				if calls++; calls < 3 {
					_, _ = content.Read(make([]byte, 2)) // the connection breaks in the middle
					return corev1alpha1.ArtifactRef{}, artifacts.NewStoreError("storing", "connection reset", true, nil)
				}
				return whole.Put(ctx, o, content)
			}}
			refs, err := s.mover().Collect(t.Context(), collection(t, dir, words))
			if err != nil || len(refs) != 1 || calls != 3 || s.failed.Load() != 2 {
				t.Errorf("got %v, %v after %d calls, of which %d failed", refs, err, calls, s.failed.Load())
			}
		})
	}
}

// TestCollectGivesUp expects the store's own words after a time that has a bound, whatever it does.
func TestCollectGivesUp(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	cases := map[string]struct {
		put   func(ctx context.Context, o artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error)
		words []string
		calls int32 // at least
	}{
		"it fails again and again": {
			put: func(context.Context, artifacts.Object, io.Reader) (corev1alpha1.ArtifactRef, error) {
				return corev1alpha1.ArtifactRef{}, artifacts.NewStoreError("storing", "503 Slow Down", true, nil)
			},
			words: []string{"503 Slow Down"}, calls: 3,
		},
		"it refuses": {
			put: func(context.Context, artifacts.Object, io.Reader) (corev1alpha1.ArtifactRef, error) {
				return corev1alpha1.ArtifactRef{}, artifacts.NewStoreError("storing", "AccessDenied", false, nil)
			},
			words: []string{"AccessDenied"}, calls: 1,
		},
		"it takes a byte now and then": {
			put: func(ctx context.Context, _ artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error) {
				_, _ = content.Read(make([]byte, 1))
				<-ctx.Done()
				return corev1alpha1.ArtifactRef{}, ctx.Err()
			},
			words: []string{`storing artifact "a"`, "too slow: it moved 1 bytes in 2m0s"}, calls: 1,
		},
		"it does not answer, not even to the end of its context": {
			put: func(context.Context, artifacts.Object, io.Reader) (corev1alpha1.ArtifactRef, error) {
				<-hang
				return corev1alpha1.ArtifactRef{}, nil
			},
			words: []string{"does not answer", "too slow: it moved 0 bytes in 2m0s"}, calls: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, dir := newScene(t), t.TempDir()
			fake := clocktesting.NewFakeClock(time.Unix(0, 0))
			s.clock = fake
			var calls atomic.Int32
			s.store = &faulty{Store: s.store, put: func(ctx context.Context, o artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error) {
				calls.Add(1)
				return tc.put(ctx, o, content)
			}}
			write(t, dir, map[string]string{"a": strings.Repeat("x", 1000)})
			err := s.collectStepping(fake, collection(t, dir, "a"), 2*time.Hour)
			if err == nil {
				t.Fatal("it was stored")
			}
			for _, word := range tc.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in %q", word, err)
				}
			}
			if calls.Load() < tc.calls || s.failed.Load() == 0 {
				t.Errorf("%d calls, %d failures were told", calls.Load(), s.failed.Load())
			}
		})
	}
}

// collectStepping collects while time passes, and fails the test when that takes longer than bound.
func (s *scene) collectStepping(fake *clocktesting.FakeClock, c Collection, bound time.Duration) error {
	s.t.Helper()
	began := fake.Now()
	ended := make(chan error, 1)
	go func() {
		_, err := s.mover().Collect(s.t.Context(), c)
		ended <- err
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if took := fake.Since(began); took > bound {
				s.t.Errorf("it took %s", took)
			}
			return err
		case <-tick.C:
			fake.Step(time.Second)
		}
	}
}

// TestCollectEndsWithItsContext expects that a store that hangs holds nobody.
func TestCollectEndsWithItsContext(t *testing.T) {
	s, dir := newScene(t), t.TempDir()
	hang, began := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.store = &faulty{Store: s.store, put: func(context.Context, artifacts.Object, io.Reader) (corev1alpha1.ArtifactRef, error) {
		close(began)
		<-hang
		return corev1alpha1.ArtifactRef{}, nil
	}}
	write(t, dir, map[string]string{"a": "1"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	start := time.Now()
	if _, err := s.mover().Collect(ctx, collection(t, dir, "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
