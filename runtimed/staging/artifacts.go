package staging

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"kruntimes.io/kruntimes/artifacts/beneath"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/opening"
)

// OpenArtifacts opens the directory in which the script has left artifacts; nil when it has removed it. The caller closes it.
func (d *Directory) OpenArtifacts() (*os.Root, error) {
	dir, err := opening.Directories(d.stage, artifactsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a script may do that
	}
	if err != nil {
		return nil, fmt.Errorf("opening $KRUNTIME_ARTIFACTS_DIR: %w", err)
	}
	return dir, nil
}

// ListArtifacts tells what lies in an artifacts directory, but no more than limit entries; more tells that there are others.
func ListArtifacts(dir *os.Root, limit int) (entries []decision.ArtifactEntry, more bool, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, false, fmt.Errorf("opening $KRUNTIME_ARTIFACTS_DIR: %w", err)
	}
	names, err := f.Readdirnames(limit + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, false, fmt.Errorf("reading $KRUNTIME_ARTIFACTS_DIR: %w", err)
	}
	if len(names) > limit {
		names, more = names[:limit], true
	}
	for _, name := range names {
		info, err := dir.Lstat(name)
		if err != nil {
			return nil, false, fmt.Errorf("looking at artifact %q: %w", name, err)
		}
		entries = append(entries, decision.ArtifactEntry{
			Name: name, Mode: info.Mode(), Size: info.Size(), Links: beneath.Links(info),
		})
	}
	return entries, more, nil
}
