package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"kruntimes.io/kruntimes/artifacts/archive"
)

// compress makes a zstd stream of content.
func compress(tb testing.TB, content []byte) []byte {
	tb.Helper()
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	must(tb, err)
	_, err = w.Write(content)
	must(tb, err)
	must(tb, w.Close())
	return packed.Bytes()
}

// archived makes a tar archive of headers as they are. A regular file holds its size of the letter x.
func archived(tb testing.TB, headers ...tar.Header) []byte {
	tb.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, h := range headers {
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		must(tb, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.CopyN(w, strings.NewReader(strings.Repeat("x", int(h.Size))), h.Size)
			must(tb, err)
		}
	}
	must(tb, w.Close())
	return packed.Bytes()
}

func regular(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1}
}

func directory(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

// zoo are archives that must not be unpacked.
var zoo = map[string]struct {
	headers []tar.Header
	want    error
	at      string
}{
	"a link, then a file through it": {
		headers: []tar.Header{{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../outside"}, regular("out/owned")},
		want:    archive.ErrKind, at: "out",
	},
	"a link to an absolute path": {
		headers: []tar.Header{{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "/etc"}}, want: archive.ErrKind, at: "out",
	},
	"links in a cycle": {
		headers: []tar.Header{
			{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b"}, {Typeflag: tar.TypeSymlink, Name: "b", Linkname: "a"},
		},
		want: archive.ErrKind, at: "a",
	},
	"a hard link to a file outside": {
		headers: []tar.Header{{Typeflag: tar.TypeLink, Name: "in", Linkname: "../outside/kept"}}, want: archive.ErrKind, at: "in",
	},
	"a hard link to a file inside": {
		headers: []tar.Header{regular("f"), {Typeflag: tar.TypeLink, Name: "g", Linkname: "f"}}, want: archive.ErrKind, at: "g",
	},
	"a character device":  {headers: []tar.Header{{Typeflag: tar.TypeChar, Name: "null"}}, want: archive.ErrKind, at: "null"},
	"a block device":      {headers: []tar.Header{{Typeflag: tar.TypeBlock, Name: "sda"}}, want: archive.ErrKind, at: "sda"},
	"a FIFO":              {headers: []tar.Header{{Typeflag: tar.TypeFifo, Name: "pipe"}}, want: archive.ErrKind, at: "pipe"},
	"an absolute path":    {headers: []tar.Header{regular("/owned")}, want: archive.ErrName, at: "/owned"},
	"a deep absolute one": {headers: []tar.Header{regular("/tmp/owned")}, want: archive.ErrName, at: "/tmp/owned"},
	"a path upwards":      {headers: []tar.Header{regular("../owned")}, want: archive.ErrName, at: "../owned"},
	"the directory above": {headers: []tar.Header{directory("../")}, want: archive.ErrName, at: ".."},
	"a path down and up": {
		headers: []tar.Header{directory("d/"), regular("d/../../owned")}, want: archive.ErrName, at: "d/../../owned",
	},
	"the directory itself":      {headers: []tar.Header{directory("./")}, want: archive.ErrName, at: "."},
	"a path from the directory": {headers: []tar.Header{regular("./f")}, want: archive.ErrName, at: "./f"},
	"a path with an empty part": {
		headers: []tar.Header{directory("d/"), regular("d//f")}, want: archive.ErrName, at: "d//f",
	},
	"a name that is not UTF-8": {
		headers: []tar.Header{{Typeflag: tar.TypeReg, Name: "a\xff", Format: tar.FormatGNU}}, want: archive.ErrName, at: "a\xff",
	},
	"a name that is too long": {
		headers: []tar.Header{regular(strings.Repeat("n", 256))}, want: archive.ErrName, at: strings.Repeat("n", 256),
	},
	"a name twice":       {headers: []tar.Header{regular("f"), regular("f")}, want: archive.ErrDuplicate, at: "f"},
	"a directory twice":  {headers: []tar.Header{directory("d/"), directory("d/")}, want: archive.ErrDuplicate, at: "d"},
	"names but for case": {headers: []tar.Header{regular("READ"), regular("read")}, want: archive.ErrDuplicate, at: "read"},
	"directories but for case": {
		headers: []tar.Header{directory("D/"), regular("D/f"), directory("d/")}, want: archive.ErrDuplicate, at: "d",
	},
	"names but for full case": {
		headers: []tar.Header{regular("stra\u00dfe"), regular("STRASSE")}, want: archive.ErrDuplicate, at: "STRASSE",
	},
	"names but for composition": {
		headers: []tar.Header{regular("\u00e9"), regular("e\u0301")}, want: archive.ErrDuplicate, at: "e\u0301",
	},
	"a file as a parent":       {headers: []tar.Header{regular("f"), regular("f/g")}, want: archive.ErrName, at: "f/g"},
	"a parent that is missing": {headers: []tar.Header{regular("d/f")}, want: archive.ErrName, at: "d/f"},
	"a parent but for case": {
		headers: []tar.Header{directory("D/"), regular("d/f")}, want: archive.ErrName, at: "d/f",
	},
	"a directory that was left": {
		headers: []tar.Header{directory("a/"), directory("b/"), regular("a/f")}, want: archive.ErrName, at: "a/f",
	},
	"records that nobody wrote": {
		headers: []tar.Header{{Typeflag: tar.TypeReg, Name: "f", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}},
		want:    archive.ErrFormat, at: "f",
	},
	"records for all entries": {
		headers: []tar.Header{{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "f"}}},
		want:    archive.ErrKind, at: "f",
	},
}

// planted makes a root to unpack into, beside a directory that must not change: the root holds a link to it.
func planted(tb testing.TB) (root, outside string) {
	tb.Helper()
	above := tb.TempDir()
	root, outside = filepath.Join(above, "root"), filepath.Join(above, "outside")
	must(tb, os.Mkdir(root, 0o700))
	must(tb, os.Mkdir(outside, 0o700))
	must(tb, os.WriteFile(filepath.Join(outside, "kept"), []byte("kept"), 0o600))
	must(tb, os.Symlink("../outside", filepath.Join(root, "planted")))
	must(tb, os.Symlink("../outside/kept", filepath.Join(root, "planted-file")))
	return root, outside
}

func TestExtractRefusesTheZoo(t *testing.T) {
	for name, test := range zoo {
		t.Run(name, func(t *testing.T) {
			dir, outside := planted(t)
			before := tree(t, outside)
			packed := compress(t, archived(t, test.headers...))
			err := archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, dir), archive.ExtractOptions{MaxBytes: 1 << 20})
			var at *archive.EntryError
			if !errors.Is(err, test.want) || !errors.As(err, &at) || at.Path != test.at {
				t.Errorf("got error %v, want %v at %q", err, test.want, test.at)
			}
			if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
				t.Errorf("outside of the root (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExtractDropsWhatGivesRights(t *testing.T) {
	packed := compress(t, archived(t, tar.Header{Typeflag: tar.TypeReg, Name: "su", Mode: 0o7755, Uid: 1, Gid: 1, Size: 1}))
	dir := t.TempDir()
	must(t, archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, dir), archive.ExtractOptions{}))
	info, err := os.Stat(filepath.Join(dir, "su"))
	must(t, err)
	if info.Mode() != 0o755 {
		t.Errorf("got mode %v, want 0755", info.Mode())
	}
}

func TestExtractIntoWhatIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		headers []tar.Header
		want    error
	}{
		"a file in place of a link to one outside":       {[]tar.Header{regular("planted-file")}, archive.ErrExists},
		"a file in place of a link to a directory":       {[]tar.Header{regular("planted")}, archive.ErrExists},
		"a directory in place of a link":                 {[]tar.Header{directory("planted/"), regular("planted/kept")}, archive.ErrExists},
		"a file in place of a directory":                 {[]tar.Header{regular("old")}, archive.ErrExists},
		"a directory in place of a file":                 {[]tar.Header{directory("file/")}, archive.ErrExists},
		"a file in place of a file":                      {[]tar.Header{regular("file")}, nil},
		"a file in place of one that has another name":   {[]tar.Header{regular("linked")}, nil},
		"a file in a directory that is there, read-only": {[]tar.Header{directory("old/"), regular("old/new")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir, outside := planted(t)
			must(t, os.Mkdir(filepath.Join(dir, "old"), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "old", "stays"), []byte("s"), 0o600))
			must(t, os.Chmod(filepath.Join(dir, "old"), 0o500))
			t.Cleanup(func() { must(t, os.Chmod(filepath.Join(dir, "old"), 0o700)) })
			must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("before"), 0o600))
			must(t, os.Link(filepath.Join(outside, "kept"), filepath.Join(dir, "linked")))
			before := tree(t, outside)
			packed := compress(t, archived(t, test.headers...))
			err := archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, dir), archive.ExtractOptions{MaxBytes: 1 << 20})
			if !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
			after := tree(t, outside)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("outside of the root (-want +got):\n%s", diff)
			}
			last := strings.TrimSuffix(test.headers[len(test.headers)-1].Name, "/")
			if got := tree(t, dir)[last]; err == nil && got.Content != "x" {
				t.Errorf("%s holds %q, want x", last, got.Content)
			}
			if got := tree(t, dir)["old/stays"]; got.Content != "s" {
				t.Errorf("old/stays holds %q, want s", got.Content)
			}
		})
	}
}

func TestExtractIsBounded(t *testing.T) {
	const mega = 1 << 20
	bomb := compress(t, archived(t, tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: 64 * mega}))
	if len(bomb)*1000 > 64*mega {
		t.Fatalf("the bomb has %d bytes and is none", len(bomb))
	}
	many := []tar.Header{}
	for i := range 64 {
		many = append(many, tar.Header{Typeflag: tar.TypeReg, Name: string(rune('A'+i%26)) + strings.Repeat("1", i), Size: mega})
	}
	for name, packed := range map[string][]byte{
		"a bomb of one file":   bomb,
		"a bomb of many files": compress(t, archived(t, many...)),
		"a bomb after its end": compress(t, append(archived(t, regular("f")), make([]byte, 64*mega)...)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, dir), archive.ExtractOptions{MaxBytes: 2 * mega, MaxEntries: 100})
			if !errors.Is(err, archive.ErrTooLarge) {
				t.Errorf("got error %v, want %v", err, archive.ErrTooLarge)
			}
			var total int
			for _, f := range tree(t, dir) {
				total += len(f.Content)
			}
			if total > 2*mega {
				t.Errorf("unpacked %d bytes, more than %d", total, 2*mega)
			}
		})
	}
}

func TestExtractRefusesWhatIsNoArchive(t *testing.T) {
	whole := compress(t, archived(t, directory("d/"), tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Size: 1 << 20}))
	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20))
	must(t, err)
	_, err = w.Write(archived(t, tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 65 << 20}))
	must(t, err)
	must(t, w.Close())
	for name, content := range map[string][]byte{
		"nothing":                      {},
		"no stream":                    []byte("hello, world"),
		"an empty stream":              compress(t, nil),
		"no archive in a stream":       compress(t, bytes.Repeat([]byte("hello, world"), 100)),
		"a stream that is cut":         whole[:len(whole)/2],
		"a stream without its last":    whole[:len(whole)-1],
		"bytes after its end":          compress(t, append(archived(t, regular("f")), "more"...)),
		"a second archive":             append(bytes.Clone(whole), whole...),
		"a window that takes too much": wide.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			err := archive.Extract(t.Context(), bytes.NewReader(content), openRoot(t, t.TempDir()), archive.ExtractOptions{MaxBytes: 1 << 30})
			if !errors.Is(err, archive.ErrFormat) {
				t.Errorf("got error %v, want %v", err, archive.ErrFormat)
			}
		})
	}
}

// ending returns an error in place of io.EOF.
type ending struct {
	io.Reader
	err error
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		err = e.err
	}
	return n, err
}

func TestExtractHearsTheEndOfItsReader(t *testing.T) {
	packed := compress(t, archived(t, regular("f")))
	why := errors.New("the digest differs")
	err := archive.Extract(t.Context(), ending{bytes.NewReader(packed), why}, openRoot(t, t.TempDir()), archive.ExtractOptions{})
	if !errors.Is(err, why) {
		t.Errorf("got error %v, want %v", err, why)
	}
}

func TestExtractEndsWithItsContext(t *testing.T) {
	packed := compress(t, archived(t, regular("f")))
	why := errors.New("the Run was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err := archive.Extract(ctx, bytes.NewReader(packed), openRoot(t, t.TempDir()), archive.ExtractOptions{})
	if !errors.Is(err, why) {
		t.Errorf("got error %v, want %v", err, why)
	}
}

// FuzzExtract unpacks anything: nothing may come to lie outside of the root, nothing that is neither file nor directory
// inside, and no more than allowed.
func FuzzExtract(f *testing.F) {
	for _, animal := range zoo {
		f.Add(archived(f, animal.headers...), true)
	}
	f.Add(archived(f, directory("d/"), regular("d/f"), directory("planted/"), regular("planted/f")), true)
	f.Add(compress(f, archived(f, regular("f"))), false)
	f.Fuzz(func(t *testing.T, content []byte, packed bool) {
		if packed {
			content = compress(t, content)
		}
		const maxBytes, maxEntries = 1 << 16, 32
		dir, outside := planted(t)
		before := tree(t, outside)
		// What it says is tested elsewhere. That it returns is not nothing.
		_ = archive.Extract(t.Context(), bytes.NewReader(content), openRoot(t, dir), archive.ExtractOptions{
			MaxBytes: maxBytes, MaxEntries: maxEntries,
		})
		if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
			t.Fatalf("outside of the root (-want +got):\n%s", diff)
		}
		made := tree(t, dir)
		delete(made, "planted")
		delete(made, "planted-file")
		total := 0
		for path, f := range made {
			if f.Mode&^fs.ModePerm != 0 && f.Mode&^fs.ModePerm != fs.ModeDir {
				t.Fatalf("%q has mode %v", path, f.Mode)
			}
			total += len(f.Content)
		}
		if len(made) > maxEntries || total > maxBytes {
			t.Fatalf("unpacked %d entries and %d bytes", len(made), total)
		}
	})
}
