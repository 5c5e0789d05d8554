package staging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"kruntimes.io/kruntimes/runtimed/decision"
)

// incomingName is where a checkout grows before it becomes the working directory.
const incomingName = "incoming"

// FillSource makes the source a directory that fill has filled: the working directory itself, which must still be empty,
// where the execution has its own. Half a directory is never seen there; what fill leaves when it fails is removed.
func (d *Directory) FillSource(fill func(dir *os.File) error) error {
	if err := d.stage.Mkdir(incomingName, 0o700); err != nil {
		return fmt.Errorf("making the directory of the source: %w", err)
	}
	dir, err := d.stage.Open(incomingName)
	if err != nil {
		return fmt.Errorf("opening the directory of the source: %w", err)
	}
	err = errors.Join(fill(dir), dir.Close())
	if err == nil {
		if err = d.moveIn(); err == nil {
			return nil
		}
		err = fmt.Errorf("moving the source into place: %w", err)
	}
	if removeErr := d.stage.RemoveAll(incomingName); removeErr != nil {
		return errors.Join(err, fmt.Errorf("removing the rest of the source: %w", removeErr))
	}
	return err
}

// moveIn gives the filled directory its name.
func (d *Directory) moveIn() error {
	if err := d.stage.Remove(d.source); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.stage.Rename(incomingName, d.source)
}

// Entrypoint is a file of the source that can be run.
type Entrypoint struct {
	// Path is the file.
	Path string
	// Direct tells that the file is executed itself, and not handed to an interpreter.
	Direct bool
	// Interpreter is what the first line of the file names, if it is executed itself and is a script.
	Interpreter string
}

// maxFirstLine bounds what is read of an entrypoint; the kernel reads no more either. Unit: bytes.
const maxFirstLine = 256

// Entrypoint looks for the file name in the source. Links are followed as long as they stay inside. The
// error is for the person who wrote the Run.
func (d *Directory) Entrypoint(name string) (Entrypoint, error) {
	if first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(name)), "/"); !filepath.IsLocal(name) || first == ".git" {
		return Entrypoint{}, fmt.Errorf("the entrypoint %q is not the path of a file in the repository", name)
	}
	source, err := d.stage.OpenRoot(d.source)
	if err != nil {
		return Entrypoint{}, fmt.Errorf("opening the source: %w", err)
	}
	e := Entrypoint{Path: filepath.Join(d.stagePath, d.source, name)}
	start, info, err := firstBytes(source, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		err = fmt.Errorf("the repository holds no file %q", name)
	case err != nil:
		err = fmt.Errorf("the entrypoint %q cannot be used: %w", name, err)
	case info.Mode()&0o100 != 0 && bytes.HasPrefix(start, []byte("\x7fELF")):
		e.Direct = true
	case info.Mode()&0o100 != 0 && bytes.HasPrefix(start, []byte("#!")):
		e.Direct = true
		e.Interpreter = interpreterOf(start)
	}
	return e, errors.Join(err, source.Close())
}

// firstBytes reads the beginning of a regular file.
func firstBytes(root *os.Root, name string) ([]byte, fs.FileInfo, error) {
	// Nothing is opened that could wait for somebody.
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("it is %s, not a regular file", decision.DescribeMode(info.Mode()))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	start, err := io.ReadAll(io.LimitReader(f, maxFirstLine))
	return start, info, errors.Join(err, f.Close())
}

// interpreterOf returns the program that the line "#!program arguments" names.
func interpreterOf(start []byte) string {
	line, _, _ := strings.Cut(string(start[len("#!"):]), "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
