package gitsource

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/test/gitserver"
)

// only makes a repository whose only commit has what build returns as its tree.
func only(build func(r *gitserver.Repository) plumbing.Hash) *gitserver.Repository {
	r := gitserver.New()
	r.References["refs/heads/main"] = r.Commit(build(r))
	return r
}

func TestHostileNames(t *testing.T) {
	for _, name := range []string{
		"..", ".", "", ".git", ".GIT", ".Git", "git~1", "GIT~1", ".git.", ".git ", ".git. .", ".git::$INDEX_ALLOCATION",
		".git:x", ".g\u200cit", "\u200d.git", ".gi\ufefft", `a\.git`, `.git\hooks`, `..\.git\config`, "a/b", "../x", "/etc/x", ".git/hooks",
	} {
		if checkName(name) == nil {
			t.Errorf("%q is taken for a harmless name", name)
		}
	}
	for _, name := range []string{
		".gitignore", ".github", ".gitmodules", "git", "gitx", "a..b", "...", "-rf", "a b", "a\nb", "git~2", "\xff\xfe", `a\b`, "a.git",
	} {
		if err := checkName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestHostileEntries checks out hostile names of every kind.
func TestHostileEntries(t *testing.T) {
	for _, name := range []string{"..", ".GIT", "../../x"} {
		for mode, nested := range map[string]bool{gitserver.File: true, gitserver.Link: false, gitserver.Directory: true, gitserver.Submodule: false} {
			t.Run(fmt.Sprintf("%q with mode %s", name, mode), func(t *testing.T) {
				t.Parallel()
				got := fetchFrom(t, only(func(r *gitserver.Repository) plumbing.Hash {
					evil := gitserver.Entry{Mode: mode, Name: name, ID: r.Blob("#!/bin/sh\n")}
					if mode == gitserver.Directory {
						evil.ID = r.Tree(gitserver.Entry{Mode: gitserver.Executable, Name: "post-checkout", ID: evil.ID})
					}
					tree := r.Tree(evil)
					if nested {
						tree = r.Tree(gitserver.Entry{Mode: gitserver.Directory, Name: "d", ID: tree})
					}
					return tree
				}), "")
				want := fmt.Sprintf(": the repository holds the name %q, which is not safe to check out", name)
				if diff := cmp.Diff(want, got.message()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

func TestHostileTrees(t *testing.T) {
	outside := t.TempDir()
	blob := func(r *gitserver.Repository, name string) gitserver.Entry {
		return gitserver.Entry{Mode: gitserver.File, Name: name, ID: r.Blob("owned")}
	}
	cases := map[string]struct {
		tree func(r *gitserver.Repository) plumbing.Hash
		want string
	}{
		"a file through a link": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: gitserver.Link, Name: "a", ID: r.Blob(outside)},
					gitserver.Entry{Mode: gitserver.Directory, Name: "a", ID: r.Tree(blob(r, "f"))})
			},
			want: `: the repository holds "a" twice, or two names that are one on this file system`,
		},
		"a file over a link": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: gitserver.Link, Name: "a", ID: r.Blob(filepath.Join(outside, "f"))}, blob(r, "a"))
			},
			want: `: the repository holds "a" twice, or two names that are one on this file system`,
		},
		"a name twice, below": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: gitserver.Directory, Name: "d", ID: r.Tree(blob(r, "a"), blob(r, "a"))})
			},
			want: `: the repository holds "d/a" twice, or two names that are one on this file system`,
		},
		"very deep": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				tree := r.Tree(blob(r, "f"))
				for range maxDepth {
					tree = r.Tree(gitserver.Entry{Mode: gitserver.Directory, Name: "d", ID: tree})
				}
				return tree
			},
			want: ": the repository is too large: its directories lie more than 128 deep",
		},
		"long paths": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				tree := r.Tree(blob(r, "f"))
				for range 20 {
					tree = r.Tree(gitserver.Entry{Mode: gitserver.Directory, Name: strings.Repeat("d", 200), ID: tree})
				}
				return tree
			},
			want: ": the repository is too large: a path has more than 3072 bytes",
		},
		"ten to the twelve files in 13 trees": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				tree := r.Tree(blob(r, "f"))
				for range 12 {
					var entries []gitserver.Entry
					for i := range 10 {
						entries = append(entries, gitserver.Entry{Mode: gitserver.Directory, Name: fmt.Sprint(i), ID: tree})
					}
					tree = r.Tree(entries...)
				}
				return tree
			},
			want: ": the repository is too large: it holds more than 1000 files and directories",
		},
		"one large file a hundred times": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				large := r.Blob(strings.Repeat("x", 1<<20))
				var entries []gitserver.Entry
				for i := range 100 {
					entries = append(entries, gitserver.Entry{Mode: gitserver.File, Name: fmt.Sprint(i), ID: large})
				}
				return r.Tree(entries...)
			},
			want: ": the repository is too large: it takes more than 16 MiB",
		},
		"a link that is too long": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: gitserver.Link, Name: "l", ID: r.Blob(strings.Repeat("x", 5000))})
			},
			want: ": the repository is damaged: a link has more than 4095 bytes",
		},
		"a link with a zero byte": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: gitserver.Link, Name: "l", ID: r.Blob("a\x00b")})
			},
			want: `: the repository is damaged: the link "l" leads nowhere`,
		},
		"a device": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: "20644", Name: "d", ID: r.Blob("")})
			},
			want: ": the repository is damaged: a directory is not readable",
		},
		"a file that is not there": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				return r.Tree(gitserver.Entry{Mode: gitserver.File, Name: "f", ID: plumbing.NewHash(strings.Repeat("1", 40))})
			},
			want: ": the server did not send the blob " + strings.Repeat("1", 40),
		},
		"a directory that is a file": {
			tree: func(r *gitserver.Repository) plumbing.Hash {
				f := blob(r, "f")
				f.Mode = gitserver.Directory
				return r.Tree(f)
			},
			want: ": the server did not send the tree f73a879c57b3b06728c6e7abdf61ad40308199ee",
		},
		"no tree at all": {
			tree: func(r *gitserver.Repository) plumbing.Hash { return r.Blob("hello") },
			want: ": the server did not send the tree b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gitserver.Start(t, only(tc.tree))
			o := opts(server)
			o.Limits = Limits{Files: 1000, Bytes: 16 << 20}
			got := fetch(t, o, Source{URL: server.URL + "/r.git"})
			if diff := cmp.Diff(tc.want, got.message()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
				t.Errorf("written outside: %v, %v", left, err)
			}
		})
	}
}

// TestManyFiles checks out as many files as are allowed.
func TestManyFiles(t *testing.T) {
	const files = 100_000
	got := fetchFrom(t, only(func(r *gitserver.Repository) plumbing.Hash {
		entries := make([]gitserver.Entry, files)
		id := r.Blob("x")
		for i := range entries {
			entries[i] = gitserver.Entry{Mode: gitserver.File, Name: fmt.Sprintf("%06d", i), ID: id}
		}
		return r.Tree(entries...)
	}), "")
	if got.err != nil {
		t.Error(got.err)
	}
}

// TestLargeFile checks a file out that is larger than the memory of the child process.
func TestLargeFile(t *testing.T) {
	const length = 160 << 20
	server := gitserver.Start(t, only(func(r *gitserver.Repository) plumbing.Hash {
		return r.Tree(gitserver.Entry{Mode: gitserver.File, Name: "f", ID: r.Blob(strings.Repeat("0123456789abcdef", length/16))})
	}))
	o := opts(server)
	o.Limits.Memory = 128 << 20
	got := fetch(t, o, Source{URL: server.URL + "/r.git"})
	if got.err != nil {
		t.Fatal(got.err)
	}
	if info, err := os.Stat(filepath.Join(got.path, "f")); err != nil || info.Size() != length {
		t.Errorf("got %v, %v", info, err)
	}
}

// rawObject is an object of a pack: its kind, the length that it declares, what follows that, and what is deflated.
type rawObject struct {
	kind   plumbing.ObjectType
	length uint64
	extra  []byte
	data   []byte
}

// packOf makes a pack that declares count objects.
func packOf(count uint32, objects ...rawObject) []byte {
	var buf bytes.Buffer
	buf.WriteString("PACK")
	_ = binary.Write(&buf, binary.BigEndian, []uint32{2, count})
	for _, o := range objects {
		first, rest := byte(o.kind)<<4|byte(o.length&15), o.length>>4
		for ; rest > 0; rest >>= 7 {
			buf.WriteByte(first | 0x80)
			first = byte(rest & 0x7f)
		}
		buf.WriteByte(first)
		buf.Write(o.extra)
		z := zlib.NewWriter(&buf)
		_, _ = z.Write(o.data)
		_ = z.Close()
	}
	sum := sha1.Sum(buf.Bytes())
	return append(buf.Bytes(), sum[:]...)
}

func TestHostilePacks(t *testing.T) {
	varints := func(values ...uint64) []byte {
		var b []byte
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	base := rawObject{kind: plumbing.BlobObject, length: 16, data: []byte("0123456789abcdef")}
	baseID := plumbing.ComputeHash(plumbing.BlobObject, base.data)
	delta := func(data []byte) rawObject {
		return rawObject{kind: plumbing.REFDeltaObject, length: uint64(len(data)), extra: baseID[:], data: data}
	}
	unknown := plumbing.NewHash(strings.Repeat("1", 40))
	zeros := make([]byte, 40<<20)
	const damaged = ": the repository is damaged, or not transferred well"
	cases := map[string]struct {
		pack []byte
		want string
	}{
		"no pack":                      {[]byte("hello"), damaged},
		"nothing":                      {nil, damaged},
		"four billion objects":         {packOf(1<<32-1, base), ": the repository is too large: it consists of 4294967295 objects"},
		"fewer objects than said":      {packOf(3, base), damaged},
		"a wrong checksum":             {append(packOf(1, base)[:40], bytes.Repeat([]byte{1}, 20)...), damaged},
		"more content than said":       {packOf(1, rawObject{kind: plumbing.BlobObject, length: 3, data: base.data}), damaged},
		"less content than said":       {packOf(1, rawObject{kind: plumbing.BlobObject, length: 300, data: base.data}), damaged},
		"a length of 2^50":             {packOf(1, rawObject{kind: plumbing.BlobObject, length: 1 << 50, data: base.data}), ": the repository is too large: it unpacks to more than 128 MiB"},
		"an unknown kind":              {packOf(1, rawObject{kind: 5, length: 16, data: base.data}), damaged},
		"a difference to nothing":      {packOf(1, rawObject{kind: plumbing.REFDeltaObject, length: 4, extra: unknown[:], data: varints(16, 1)}), damaged},
		"a difference before the pack": {packOf(1, rawObject{kind: plumbing.OFSDeltaObject, length: 4, extra: []byte{100}, data: varints(16, 1)}), damaged},
		"a difference to itself":       {packOf(1, rawObject{kind: plumbing.OFSDeltaObject, length: 4, extra: []byte{0}, data: varints(16, 1)}), damaged},
		"a difference that says 2^60":  {packOf(2, base, delta(varints(16, 1<<60))), ": the repository is too large: unpacking it takes too much memory"},
		"a difference that says 2^63":  {packOf(2, base, delta(varints(16, 1<<63))), ": the repository is too large: unpacking it takes too much memory"},
		"a difference beyond its base": {packOf(2, base, delta(append(varints(16, 100), 0x91, 50, 50))), damaged},
		"four small objects, 160 MiB":  {packOf(4, zeroBlob(zeros, 1), zeroBlob(zeros, 2), zeroBlob(zeros, 3), zeroBlob(zeros, 4)), ": the repository is too large: it unpacks to more than 128 MiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newHistory()
			server := gitserver.Start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if strings.HasSuffix(req.URL.Path, "/info/refs") {
					r.ServeHTTP(w, req)
					return
				}
				w.Header().Set("Content-Type", resultType)
				_, _ = w.Write([]byte("00000008NAK\n"))
				for chunk := tc.pack; len(chunk) > 0; {
					n := min(len(chunk), 60000)
					_, _ = fmt.Fprintf(w, "%04x\x01%s", n+5, chunk[:n])
					chunk = chunk[n:]
				}
				_, _ = w.Write([]byte("0000"))
			}))
			o := opts(server)
			o.Limits = Limits{Bytes: 16 << 20}
			got := fetch(t, o, Source{URL: server.URL + "/r.git"})
			if !strings.HasPrefix(got.message(), tc.want) || tc.want == "" {
				t.Errorf("want %q, got %q", tc.want, got.message())
			}
		})
	}
}

// zeroBlob is a blob that deflates to almost nothing.
func zeroBlob(zeros []byte, last byte) rawObject {
	return rawObject{kind: plumbing.BlobObject, length: uint64(len(zeros) + 1), data: append(zeros[:len(zeros):len(zeros)], last)}
}
