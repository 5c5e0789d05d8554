// Package staging lays out the directory in which one execution takes place, reads what the script left there, and
// removes it again.
//
// The scratch volume is writable for user code, so every access goes through os.Root: nothing outside can be reached,
// whatever links a script leaves. A Directory is held open from its creation on: replacing it by another one under the
// same name does not redirect runtimed.
package staging

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/opening"
	"kruntimes.io/kruntimes/runtimed/outputs"
)

// Names inside the directory of an execution.
const (
	scriptName    = "script"
	outputsName   = "outputs"
	artifactsName = "artifacts"
	workName      = "work"
	sourceName    = "source"
	homeName      = "home"
	tempName      = "tmp"
)

// Area is the scratch volume, which holds one directory per execution.
type Area struct {
	path string
	root *os.Root
}

// Open opens the scratch volume, which exists. The path must be the one under which the runtime server sees it too.
func Open(path string) (*Area, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the scratch directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the scratch directory: %w", err)
	}
	return &Area{path: path, root: root}, nil
}

// Close releases the volume.
func (a *Area) Close() error { return a.root.Close() }

// Names lists what lies in the volume.
func (a *Area) Names() ([]string, error) {
	entries, err := fs.ReadDir(a.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("listing the scratch directory: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Place is where an execution takes place that shares its working directory with others.
type Place struct {
	// Work is the working directory, which others have made.
	Work string
	// Stage is a directory below Work that is reserved for the execution, Root the same, open. The Directory closes it.
	Stage string
	Root  *os.Root
}

// Directory is the place of one execution: a private part, and one that the script shares with runtimed. They are the same
// unless the execution takes place in a Place.
type Directory struct {
	path string
	root *os.Root
	// stage holds the script, outputs, artifacts and source, at stagePath.
	stagePath string
	stage     *os.Root
	// work is the working directory. source is the name of the source in stage.
	work, source string
}

// Create lays out the directory of execution id, with script as its script unless that is empty. What lies there under
// the same name is removed first. The execution has its own working directory.
func (a *Area) Create(id, script string) (*Directory, error) { return a.CreateIn(id, script, nil) }

// CreateIn is Create for an execution that shares its working directory; with a nil place it is Create.
func (a *Area) CreateIn(id, script string, place *Place) (*Directory, error) {
	err := a.root.Mkdir(id, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err := a.Remove(id); err != nil {
			return nil, errors.Join(err, place.close())
		}
		err = a.root.Mkdir(id, 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the directory of execution %s: %w", id, err), place.close())
	}
	d, err := a.Reopen(id, place)
	if err != nil {
		return nil, err
	}
	if err := d.fill(script); err != nil {
		return nil, errors.Join(fmt.Errorf("laying out execution %s: %w", id, err), d.Close(), a.Remove(id))
	}
	return d, nil
}

// Reopen opens the directory of an execution that an earlier runtimed has laid out, with the same place.
func (a *Area) Reopen(id string, place *Place) (*Directory, error) {
	root, err := a.root.OpenRoot(id)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the directory of execution %s: %w", id, err), place.close())
	}
	d := &Directory{path: filepath.Join(a.path, id), root: root}
	if place == nil {
		d.stagePath, d.stage = d.path, root
		d.work, d.source = filepath.Join(d.path, workName), workName
		return d, nil
	}
	d.stagePath, d.stage = place.Stage, place.Root
	d.work, d.source = place.Work, sourceName
	return d, nil
}

// close releases the place of an execution that does not take place.
func (p *Place) close() error {
	if p == nil {
		return nil
	}
	return p.Root.Close()
}

// fill makes the files and directories of a new execution.
func (d *Directory) fill(script string) error {
	private := []string{homeName, tempName}
	if d.stage == d.root {
		private = append(private, workName)
	}
	for _, name := range private {
		if err := d.root.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	if err := d.stage.Mkdir(artifactsName, 0o700); err != nil {
		return err
	}
	if script != "" {
		if err := d.create(scriptName, script, 0o500); err != nil {
			return err
		}
	}
	return d.create(outputsName, "", 0o600)
}

func (d *Directory) create(name, text string, mode fs.FileMode) error {
	f, err := d.stage.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if text != "" {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// Script is the path of the script.
func (d *Directory) Script() string { return filepath.Join(d.stagePath, scriptName) }

// Outputs is the path of the file to which the script writes its outputs.
func (d *Directory) Outputs() string { return filepath.Join(d.stagePath, outputsName) }

// Artifacts is the directory in which the script leaves artifacts.
func (d *Directory) Artifacts() string { return filepath.Join(d.stagePath, artifactsName) }

// Work is the working directory.
func (d *Directory) Work() string { return d.work }

// Private is the directory that holds what the script shares with runtimed. Close closes it.
func (d *Directory) Private() *os.Root { return d.stage }

// OpenWork opens the working directory of an execution that has its own. The caller closes it.
func (d *Directory) OpenWork() (*os.Root, error) {
	work, err := opening.Directories(d.root, workName)
	if err != nil {
		return nil, fmt.Errorf("opening the working directory: %w", err)
	}
	return work, nil
}

// Home is the private HOME of the execution.
func (d *Directory) Home() string { return filepath.Join(d.path, homeName) }

// Temp is the private TMPDIR of the execution.
func (d *Directory) Temp() string { return filepath.Join(d.path, tempName) }

// Close releases the directory. What is in it stays.
func (d *Directory) Close() error {
	err := d.root.Close()
	if d.stage != d.root {
		err = errors.Join(err, d.stage.Close())
	}
	return err
}

// ReadOutputs returns the bytes of the outputs file. It neither follows links nor waits for anybody, and reads no more
// than outputs.MaxFile. The error is an *outputs.Error.
func (d *Directory) ReadOutputs() ([]byte, error) {
	before, err := d.stage.Lstat(outputsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &outputs.Error{Message: "the outputs file is gone: the script removed or moved it"}
	}
	if err != nil {
		return nil, unreadable(err)
	}
	if !before.Mode().IsRegular() {
		return nil, &outputs.Error{Message: fmt.Sprintf("the outputs file is %s, not a regular file", decision.DescribeMode(before.Mode()))}
	}
	if before.Size() > outputs.MaxFile {
		return nil, tooLarge(before.Size())
	}
	f, err := d.stage.OpenFile(outputsName, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(err)
	}
	data, err := readSame(f, before)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, unreadable(err)
	}
	if len(data) > outputs.MaxFile {
		return nil, tooLarge(int64(len(data)))
	}
	return data, nil
}

// readSame reads f after checking that it is the file that was looked at.
func readSame(f *os.File, before fs.FileInfo) ([]byte, error) {
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, opened) {
		return nil, errors.New("it was replaced while it was read")
	}
	// A hard link may lead to any file of the same user that lies on the same file system.
	if stat, ok := opened.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return nil, fmt.Errorf("it has %d names: a hard link is not read", stat.Nlink)
	}
	return io.ReadAll(io.LimitReader(f, outputs.MaxFile+1))
}

func tooLarge(size int64) error {
	return &outputs.Error{TooLarge: true,
		Message: fmt.Sprintf("the outputs file holds %d bytes, more than %d", size, outputs.MaxFile)}
}

func unreadable(err error) error {
	return &outputs.Error{Message: fmt.Sprintf("the outputs file cannot be read: %v", err)}
}
