package images

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// content is what the Dockerfile and this package have to agree on.
type content struct {
	Files      []string
	User       string
	Entrypoint []string
}

// stages returns what the Dockerfile puts into each image that begins from nothing.
func stages(t *testing.T) map[string]content {
	t.Helper()
	dockerfile, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	images, current := map[string]content{}, ""
	for line := range strings.Lines(string(dockerfile)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		image := images[current]
		switch {
		case words[0] == "FROM":
			current, image = "", content{}
			if words[1] == "scratch" {
				current = words[3]
			}
		case current == "":
			continue
		case words[0] == "COPY":
			for _, source := range words[2 : len(words)-1] {
				image.Files = append(image.Files, path.Join(words[len(words)-1], path.Base(source)))
			}
		case words[0] == "USER":
			image.User = words[1]
		case words[0] == "ENTRYPOINT":
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "ENTRYPOINT ")), &image.Entrypoint); err != nil {
				t.Fatalf("reading %q: %v", line, err)
			}
		}
		if current != "" {
			images[current] = image
		}
	}
	return images
}

func TestImagesHoldWhatTheDockerfileSays(t *testing.T) {
	got := map[string]content{}
	for stage, image := range map[string]Image{"controlplane": ControlPlane("a:b", "bin"), "node": Node("a:b", "bin")} {
		c := content{User: image.User, Entrypoint: image.Entrypoint}
		for _, file := range image.Files {
			c.Files = append(c.Files, file.Path)
		}
		got[stage] = c
	}
	if diff := cmp.Diff(stages(t), got); diff != "" {
		t.Errorf("images (-Dockerfile +ours):\n%s", diff)
	}
}

func TestWriteMakesAnArchiveThatHoldsTheImage(t *testing.T) {
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "program"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	image := Image{
		Reference: "kruntimes/x:dev", Files: []File{{Path: "/opt/a/program", Source: program}}, User: "1:2",
		Entrypoint: []string{"/opt/a/program"},
	}
	if err := Write(archive, image); err != nil {
		t.Fatal(err)
	}
	built, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "1:2" || config.OS != "linux" || len(config.Config.Entrypoint) != 1 {
		t.Errorf("configuration: %+v", config)
	}
	layers, err := built.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %v, %v", layers, err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	var names []string
	for reader := tar.NewReader(layer); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	if diff := cmp.Diff([]string{"opt/", "opt/a/", "opt/a/program"}, names); diff != "" {
		t.Errorf("the layer (-want +got):\n%s", diff)
	}
}

func TestWriteNamesTheFileThatIsMissing(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "image.tar"), ControlPlane("a:b", t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), "adding /manager: opening it") {
		t.Errorf("Write() = %v", err)
	}
}
