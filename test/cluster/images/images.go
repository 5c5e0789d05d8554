// Package images writes container images as archives, from files and without a daemon: those of kruntimes with the content,
// user and entrypoint of the Dockerfile, and those that the end-to-end suite runs Pods from.
package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	containerv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image.
type File struct {
	// Path is where it is in the image, absolute.
	Path string
	// Source is the file on this machine.
	Source string
}

// Image is what goes into an archive.
type Image struct {
	// Reference is the image's name and tag.
	Reference string
	// Root is a tar archive with a whole root file system below the files. Default: there is none.
	Root string
	// Files lie above Root.
	Files []File
	// User is the numeric user and group of processes. Default: root.
	User string
	// Entrypoint is the program and its first arguments; Cmd are those that a Pod may replace.
	Entrypoint, Cmd []string
	// Env holds variables for all processes.
	Env []string
}

// user is that of all images of kruntimes.
const user = "65532:65532"

// certificates is where git servers' authorities are kept, on this machine and in images.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

func binaries(dir string, names ...string) []File {
	files := make([]File, len(names))
	for i, name := range names {
		files[i] = File{Path: "/" + name, Source: filepath.Join(dir, name)}
	}
	return files
}

// ControlPlane is the image of manager and scheduler, whose binaries are in dir.
func ControlPlane(reference, dir string) Image {
	return Image{Reference: reference, Files: binaries(dir, "manager", "scheduler"), User: user, Entrypoint: []string{"/manager"}}
}

// Node is the image of every Runtime Pod's runtimed and runtime server, whose binaries are in dir.
func Node(reference, dir string) Image {
	files := binaries(dir, "runtimed", "runtimed-s3", "runtime-server")
	return Image{
		Reference: reference, User: user, Entrypoint: []string{"/runtimed"},
		Files: append([]File{{Path: certificates, Source: certificates}}, files...),
	}
}

// Pause is the image that holds the namespaces of Pods, with this static program.
func Pause(reference, program string) Image {
	return Image{Reference: reference, Files: []File{{Path: "/pause", Source: program}}, User: user, Entrypoint: []string{"/pause"}}
}

// System is an image with a whole root file system, as that of a distribution.
func System(reference, root string, cmd ...string) Image {
	return Image{
		Reference: reference, Root: root, Cmd: cmd,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
}

// Write makes the archive, as docker save would.
func Write(archive string, image Image) error {
	built, err := build(image)
	if err != nil {
		return fmt.Errorf("building image %s: %w", image.Reference, err)
	}
	tag, err := name.NewTag(image.Reference)
	if err != nil {
		return fmt.Errorf("reading the name of image %s: %w", image.Reference, err)
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return fmt.Errorf("making the directory of image %s: %w", image.Reference, err)
	}
	// A reader never meets half an archive.
	if err := tarball.WriteToFile(archive+".part", tag, built); err != nil {
		return fmt.Errorf("writing image %s: %w", image.Reference, err)
	}
	if err := os.Rename(archive+".part", archive); err != nil {
		return fmt.Errorf("moving image %s into place: %w", image.Reference, err)
	}
	return nil
}

func build(image Image) (containerv1.Image, error) {
	var layers []containerv1.Layer
	if image.Root != "" {
		layer, err := tarball.LayerFromFile(image.Root)
		if err != nil {
			return nil, fmt.Errorf("reading the root file system: %w", err)
		}
		layers = append(layers, layer)
	}
	if len(image.Files) > 0 {
		content, err := pack(image.Files)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
		if err != nil {
			return nil, fmt.Errorf("making a layer: %w", err)
		}
		layers = append(layers, layer)
	}
	built, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding layers: %w", err)
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = runtime.GOARCH, "linux"
	config.Config = containerv1.Config{User: image.User, Entrypoint: image.Entrypoint, Cmd: image.Cmd, Env: image.Env}
	if built, err = mutate.ConfigFile(built, config); err != nil {
		return nil, fmt.Errorf("setting the configuration: %w", err)
	}
	return built, nil
}

// pack returns a layer with the files, all owned by root and executable or readable as on this machine.
func pack(files []File) ([]byte, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	for _, dir := range parents(files) {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("adding directory %s: %w", dir, err)
		}
	}
	for _, file := range files {
		if err := add(archive, file); err != nil {
			return nil, fmt.Errorf("adding %s: %w", file.Path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("closing a layer: %w", err)
	}
	return content.Bytes(), nil
}

// parents returns the directories of the files, each before what it holds.
func parents(files []File) []string {
	var dirs []string
	for _, file := range files {
		for dir := path.Dir(strings.TrimPrefix(file.Path, "/")); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func add(archive *tar.Writer, file File) error {
	source, err := os.Open(file.Source)
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("looking at it: %w", err)
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(file.Path, "/"), Size: info.Size(), Mode: mode}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("writing its header: %w", err)
	}
	if _, err := io.Copy(archive, source); err != nil {
		return fmt.Errorf("copying it: %w", err)
	}
	return nil
}
