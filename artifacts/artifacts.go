// Package artifacts keeps what Runs leave for others, outside of their Pods: in a Store, which its drivers in the packages
// filesystem and s3 implement. Package archive turns directories into single objects and back.
//
// A store holds, below its root or prefix:
//
//	runs/<run-uid>/owner.json          whose it is: written first, removed last
//	runs/<run-uid>/artifacts/<name>    one object per artifact, visible only when it is complete
//
// An address of an artifact (corev1alpha1.ArtifactRef) is no authorization: a store opens only what lies in itself, at a path
// of that shape.
package artifacts

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var (
	// ErrNotFound tells that the store holds no such object.
	ErrNotFound = errors.New("no such artifact")
	// ErrOutside tells that an address does not lie in the store, or has not the shape of an artifact's.
	ErrOutside = errors.New("not in this artifact store")
	// ErrDigest tells that the bytes are not those that were stored.
	ErrDigest = errors.New("the bytes differ from those that were stored")
	// ErrTooLarge tells that an object exceeds the bound that Put was given.
	ErrTooLarge = errors.New("larger than allowed")
)

// Object is what Put stores.
type Object struct {
	// Run is the UID of the Run that made it.
	Run types.UID
	// Name is the artifact's, as CheckName accepts it.
	Name string
	// Type says what the content is: the bytes of a file, or an archive of package archive.
	Type corev1alpha1.ArtifactType
	// MaxBytes bounds the stored object. Zero: no bound. Unit: bytes.
	MaxBytes int64
}

// Owner says whose the artifacts of a Run are.
type Owner struct {
	// NamespaceUID is the UID of the Run's namespace.
	NamespaceUID types.UID `json:"namespaceUID"`
	// Namespace is its name, for people.
	Namespace string `json:"namespace"`
	// Run is the name of the Run.
	Run string `json:"run"`
}

// FileContent is content that lies in a file. Drivers that keep files have the kernel copy it, instead of reading it.
type FileContent interface {
	io.Reader
	// File returns the file, from whose offset Read would go on, or nil when there is none. moved is called for each part
	// that was copied from it and not read; an error that it returns ends the copy, and is the content's. Unit: bytes.
	File() (from *os.File, moved func(n int64) error)
}

// ErrNoFileCopy tells that the kernel cannot copy between two files. Nothing was copied, and all can still be read.
var ErrNoFileCopy = errors.New("the kernel does not copy between these files")

// FileCopier is what Open returns where an artifact may lie in a file.
type FileCopier interface {
	io.ReadCloser
	// CopyTo has the kernel copy the artifact into a file that is empty and open for reading and writing, and calls moved for
	// each part that has arrived; an error that moved returns ends the copy and is returned. It takes the place of Read and has
	// its errors; what is wrong with the file is a WriteError. What the file holds after an error is worth nothing, but for
	// ErrNoFileCopy: then it is empty, and the artifact is there to be read.
	CopyTo(to *os.File, moved func(n int64) error) error
}

// Claim is a Run of which the store holds something.
type Claim struct {
	// Run is the UID of the Run.
	Run types.UID
	// Owner is the content of its owner.json.
	Owner Owner
	// Since is when owner.json was written, by the clock of the store.
	Since time.Time
}

// Store holds artifacts. All methods stream: none of them holds more than a fixed amount of memory. They are safe for
// concurrent use, also by several processes. Errors carry the store's own words.
type Store interface {
	// Claim writes owner.json of a Run. It comes before the first Put; writing the same again does no harm.
	Claim(ctx context.Context, run types.UID, owner Owner) error
	// Owner reads owner.json of a Run. Errors: ErrNotFound.
	Owner(ctx context.Context, run types.UID) (Owner, error)
	// Put stores content up to its end, and replaces what is there under that name. What is there stays as it is, and
	// nothing of the content becomes visible, until all of it is stored. An error of content is returned, wrapped.
	// Errors: ErrTooLarge.
	Put(ctx context.Context, object Object, content io.Reader) (corev1alpha1.ArtifactRef, error)
	// Open reads an artifact. Instead of io.EOF its Read returns ErrDigest when what was read has not the size or the
	// digest that the address says. Errors: ErrOutside, ErrNotFound.
	Open(ctx context.Context, ref corev1alpha1.ArtifactRef) (io.ReadCloser, error)
	// Claims yields every Run of which the store holds something, and an error for each that it cannot read; the last
	// pair may be an error alone.
	Claims(ctx context.Context) iter.Seq2[Claim, error]
	// Remove removes everything of a Run, unfinished uploads included. There may be nothing.
	Remove(ctx context.Context, run types.UID) error
	// Check tells what would keep the store from taking an artifact: its configuration, permissions, or that it is not there.
	Check(ctx context.Context) error
}
