package filesystem

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/filecopy"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

// unfinishedDirectory holds what is being written. What a crash leaves there goes with the Run.
const unfinishedDirectory = "unfinished"

// written is content below unfinished, all of it.
type written struct {
	name   string
	size   int64
	digest string
	at     metav1.Time // by the clock of the store
}

// write stores content under a name of its own, and leaves nothing when it cannot.
func write(ctx context.Context, at *os.Root, content io.Reader, maxBytes int64) (written, error) {
	if err := makeDirectory(at, unfinishedDirectory); err != nil {
		return written{}, absent(err)
	}
	w := written{name: unfinishedDirectory + "/" + rand.Text()}
	f, err := at.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return written{}, absent(err)
	}
	err = w.fill(f, stream.Bound(ctx, content, maxBytes))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = at.Remove(w.name) // what is left goes with the Run
		return written{}, err
	}
	return w, nil
}

func (w *written) fill(f *os.File, content artifacts.FileContent) error {
	if err := w.copy(f, content); err != nil {
		return told(err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w.at = metav1.NewTime(info.ModTime().UTC())
	return nil
}

// copy writes content, until it is on the disk.
func (w *written) copy(f *os.File, content artifacts.FileContent) error {
	size, sum, err := filecopy.Copy(f, content, f.Sync)
	switch {
	case err == nil:
		w.size, w.digest = size, artifacts.Digest(sum)
		return nil
	case !errors.Is(err, artifacts.ErrNoFileCopy):
		return err
	}
	if w.size, w.digest, err = stream.Copy(f, content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return &artifacts.WriteError{Err: err}
	}
	return nil
}

// publish gives what was written its name in a directory of the Run, in place of what has it. Errors: errMissing when the
// Run was removed meanwhile.
func (w *written) publish(at *os.Root, directory, name string) error {
	err := makeDirectory(at, directory)
	if err == nil {
		err = at.Rename(w.name, directory+"/"+name)
	}
	if err != nil {
		_ = at.Remove(w.name) // what is left goes with the Run
		return absent(err)
	}
	return absent(syncDirectory(at, directory))
}

// claim makes the directory of a Run and writes its owner.json.
func (s *Store) claim(ctx context.Context, run types.UID, owner artifacts.Owner) error {
	content, err := json.Marshal(owner)
	if err != nil {
		return fmt.Errorf("encoding the owner: %w", err)
	}
	at, err := s.makeRun(run)
	if err != nil {
		return err
	}
	defer at.Close()
	w, err := write(ctx, at, bytes.NewReader(content), 0)
	if err != nil {
		return err
	}
	return w.publish(at, ".", artifacts.OwnerFile)
}
