package artifactstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

func outside(t *testing.T, s Subject) {
	run := s.claim(t)
	ref := s.put(t, run, "a", []byte("a"))
	path := artifacts.Path(run, "a")
	for name, at := range map[string]string{
		"the owner":               "runs/" + string(run) + "/owner.json",
		"a path upwards":          "runs/../" + path,
		"a path around":           "runs/" + string(run) + "/artifacts/../artifacts/a",
		"a path below":            path + "/a",
		"an absolute path":        "/" + path,
		"a Run that is none":      "runs/x/artifacts/a",
		"another shape":           "a",
		"nothing":                 "",
		"another artifact's name": artifacts.Path(run, "b"),
	} {
		other := ref
		other.Location = s.At(at)
		if _, err := s.Store.Open(t.Context(), other); !errors.Is(err, artifacts.ErrOutside) {
			t.Errorf("%s: got %v, want %v", name, err, artifacts.ErrOutside)
		}
	}
	for name, other := range s.Elsewhere {
		if _, err := s.Store.Open(t.Context(), other); !errors.Is(err, artifacts.ErrOutside) {
			t.Errorf("%s: got %v, want %v", name, err, artifacts.ErrOutside)
		}
	}
	for name, at := range map[string]string{
		"another Run": artifacts.Path(uuid.NewUUID(), "a"),
		"no artifact": artifacts.Path(run, "b"),
	} {
		other := ref
		other.Location = s.At(at)
		other.Name = at[len(at)-1:]
		if _, err := s.Store.Open(t.Context(), other); !errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("%s: got %v, want %v", name, err, artifacts.ErrNotFound)
		}
	}
}

func notices(t *testing.T, s Subject) {
	run := s.claim(t)
	content := random(3 << 20)
	changed := bytes.Clone(content)
	changed[1<<20]++
	for name, other := range map[string][]byte{
		"another byte": changed, "less": content[:2<<20], "more": append(bytes.Clone(content), 0), "nothing": nil,
	} {
		ref := s.put(t, run, "a", content)
		s.Replace(t, artifacts.Path(run, "a"), other)
		if _, err := s.read(t, ref); !errors.Is(err, artifacts.ErrDigest) {
			t.Errorf("%s: reading gave %v, want %v", name, err, artifacts.ErrDigest)
		}
		r, err := s.Store.Open(t.Context(), ref)
		must(t, err)
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, artifacts.ErrDigest) {
			t.Errorf("%s: copying gave %v, want %v", name, err, artifacts.ErrDigest)
		}
		must(t, r.Close())
		plain := ref
		plain.SizeBytes, plain.Digest = 0, ""
		if got, err := s.read(t, plain); err != nil || !bytes.Equal(got, other) {
			t.Errorf("%s: an address without digest gave %d bytes and %v", name, len(got), err)
		}
	}
}

func readingEnds(t *testing.T, s Subject) {
	ref := s.put(t, s.claim(t), "a", random(20<<20))
	why := errors.New("the Run was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := s.Store.Open(ctx, ref)
	must(t, err)
	defer r.Close()
	_, err = io.ReadFull(r, make([]byte, 1000))
	must(t, err)
	cancel(why)
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// claims collects what a store lists.
func claims(tb testing.TB, store artifacts.Store) map[types.UID]artifacts.Claim {
	tb.Helper()
	got := map[types.UID]artifacts.Claim{}
	for claim, err := range store.Claims(tb.Context()) {
		if err != nil {
			tb.Errorf("listing gave %v", err)
			continue
		}
		got[claim.Run] = claim
	}
	return got
}

func lists(t *testing.T, s Subject) {
	if got := claims(t, s.Store); len(got) != 0 {
		t.Errorf("an empty store lists %v", got)
	}
	start := time.Now().Add(-time.Minute) // clocks of stores are coarse
	want := map[types.UID]artifacts.Owner{}
	for _, namespace := range []string{"one", "two"} {
		for range 3 {
			run := uuid.NewUUID()
			want[run] = artifacts.Owner{NamespaceUID: types.UID("uid-" + namespace), Namespace: namespace, Run: "r \"1\" ü"}
			must(t, s.Store.Claim(t.Context(), run, want[run]))
			must(t, s.Store.Claim(t.Context(), run, want[run]))
			s.put(t, run, "a", []byte("a"))
			if got, err := s.Other.Owner(t.Context(), run); err != nil || got != want[run] {
				t.Errorf("got owner %v and %v, want %v", got, err, want[run])
			}
		}
	}
	got := claims(t, s.Other)
	if len(got) != len(want) {
		t.Errorf("listed %d Runs, want %d", len(got), len(want))
	}
	for run, owner := range want {
		claim := got[run]
		if claim.Owner != owner || claim.Since.Before(start) || claim.Since.After(time.Now().Add(time.Minute)) {
			t.Errorf("listed %+v, want owner %v", claim, owner)
		}
		must(t, s.Store.Remove(t.Context(), run)) // while others are still listed below
	}
	for claim, err := range s.Store.Claims(t.Context()) {
		t.Errorf("after all were removed, %v is listed, and error %v", claim, err)
	}
	listsPart(t, s)
}

// listsPart lists one of two Runs, and both when the owner of one cannot be read.
func listsPart(t *testing.T, s Subject) {
	t.Helper()
	first := s.claim(t)
	s.claim(t)
	n := 0
	for _, err := range s.Store.Claims(t.Context()) {
		must(t, err)
		n++
		break
	}
	if n != 1 {
		t.Errorf("got %d Runs before the end, want 1", n)
	}
	s.Replace(t, "runs/"+string(first)+"/owner.json", []byte("{"))
	var failed, whole int
	for claim, err := range s.Store.Claims(t.Context()) {
		if err == nil {
			whole++
		} else if failed++; claim.Run != first {
			t.Errorf("an owner that cannot be read: got Run %s, want %s", claim.Run, first)
		}
	}
	if failed != 1 || whole != 1 {
		t.Errorf("listed %d Runs and %d errors, want one of each", whole, failed)
	}
}

func removes(t *testing.T, s Subject) {
	run := types.UID("00000000-0000-0000-0000-000000000001")
	other := types.UID("00000000-0000-0000-0000-000000000002")
	for _, r := range []types.UID{run, other} {
		must(t, s.Store.Claim(t.Context(), r, artifacts.Owner{Run: "r"}))
		s.put(t, r, "a", random(9<<20))
		s.put(t, r, "b", nil)
	}
	must(t, s.Other.Remove(t.Context(), run))
	s.only(t, other, "a", "b")
	must(t, s.Store.Remove(t.Context(), run))
	must(t, s.Store.Remove(t.Context(), uuid.NewUUID()))
	s.only(t, other, "a", "b")
	if got := claims(t, s.Store); len(got) != 1 {
		t.Errorf("listed %v, want one Run", got)
	}
	must(t, s.Store.Claim(t.Context(), run, artifacts.Owner{Run: "r"}))
	s.put(t, run, "a", []byte("again"))
}

func removesUploads(t *testing.T, s Subject) {
	for _, size := range []int{1, 40 << 20} {
		run := s.claim(t)
		reached, removed := make(chan struct{}), make(chan struct{})
		content := io.MultiReader(bytes.NewReader(random(size)),
			&failing{Reader: bytes.NewReader(nil), err: io.EOF, do: func() { close(reached); <-removed }})
		done := make(chan error, 1)
		go func() {
			_, err := s.Store.Put(t.Context(), object(run, "a"), content)
			done <- err
		}()
		<-reached
		must(t, s.Other.Remove(t.Context(), run))
		close(removed)
		if err := <-done; err == nil {
			t.Errorf("size %d: an artifact of a Run that was removed was stored", size)
		}
		if got := s.Objects(t); len(got) != 0 {
			t.Errorf("size %d: %q are visible", size, got)
		}
		if n := s.Unfinished(t); n != 0 {
			t.Errorf("size %d: left %d unfinished uploads", size, n)
		}
	}
}

// together stores contents at the same time, each with its own store, and returns the addresses.
func together(t *testing.T, s Subject, objects []artifacts.Object, contents [][]byte) []corev1alpha1.ArtifactRef {
	t.Helper()
	refs := make([]corev1alpha1.ArtifactRef, len(objects))
	var all sync.WaitGroup
	for i := range objects {
		store := s.Store
		if i%2 == 1 {
			store = s.Other
		}
		all.Go(func() {
			ref, err := store.Put(t.Context(), objects[i], bytes.NewReader(contents[i]))
			if err != nil {
				t.Errorf("storing the %d. at once: %v", i+1, err)
			}
			refs[i] = ref
		})
	}
	all.Wait()
	return refs
}

func sameObject(t *testing.T, s Subject) {
	run := s.claim(t)
	var objects []artifacts.Object
	var contents [][]byte
	for i := range 6 {
		objects = append(objects, object(run, "a"))
		contents = append(contents, random(i*5<<20+1))
	}
	refs := together(t, s, objects, contents)
	whole := 0
	for i, ref := range refs {
		got, err := s.read(t, ref)
		switch {
		case err == nil && bytes.Equal(got, contents[i]):
			whole++
		case !errors.Is(err, artifacts.ErrDigest):
			t.Errorf("the %d.: got %v, want %v", i+1, err, artifacts.ErrDigest)
		}
	}
	if whole != 1 {
		t.Errorf("%d of the uploads are there, want 1", whole)
	}
	s.only(t, run, "a")
	if n := s.Unfinished(t); n != 0 {
		t.Errorf("left %d unfinished uploads", n)
	}
}

func sameName(t *testing.T, s Subject) {
	var objects []artifacts.Object
	var contents [][]byte
	for range 4 {
		objects = append(objects, object(s.claim(t), "dist.tgz"))
		contents = append(contents, random(17<<20))
	}
	for i, ref := range together(t, s, objects, contents) {
		if got, err := s.read(t, ref); err != nil || !bytes.Equal(got, contents[i]) {
			t.Errorf("the %d.: got %d bytes and error %v", i+1, len(got), err)
		}
	}
}

func checks(t *testing.T, s Subject) {
	must(t, s.Store.Check(t.Context()))
	run := s.claim(t)
	must(t, s.Store.Check(t.Context()))
	s.only(t, run)
	if got := claims(t, s.Store); len(got) != 1 || got[run].Run != run {
		t.Errorf("listed %v, want %v", got, run)
	}
}

func little(t *testing.T, s Subject) {
	content := random(300_000)
	ref, err := s.Store.Put(t.Context(), object(s.claim(t), "a"), iotest.HalfReader(iotest.DataErrReader(bytes.NewReader(content))))
	must(t, err)
	r, err := s.Store.Open(t.Context(), ref)
	must(t, err)
	defer r.Close()
	got, err := io.ReadAll(iotest.HalfReader(r))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %d bytes and error %v", len(got), err)
	}
}
