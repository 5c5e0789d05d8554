package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll removes a directory with all that is in it, also what somebody has made read-only.
func RemoveAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	walkErr := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return errors.Join(err, walkErr)
	}
	return nil
}
