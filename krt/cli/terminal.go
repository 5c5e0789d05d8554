package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal is what is known about the terminal behind a stream.
type Terminal struct {
	// Live tells that there is one, on which lines can be drawn anew.
	Live bool
	// Colours tells that a person wants colours there.
	Colours bool
	// Size returns its width and height in characters, as they are now.
	Size func() (width, height int)
}

// The size that is assumed of a terminal that does not tell.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Terminal looks at a stream. NO_COLOR and TERM=dumb are honoured.
func (f *Factory) Terminal(w io.Writer) Terminal {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || f.lookupEnv("TERM") == "dumb" {
		return Terminal{Size: func() (int, int) { return 0, 0 }}
	}
	return Terminal{Live: true, Colours: f.lookupEnv("NO_COLOR") == "", Size: func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return usualWidth, usualHeight
		}
		return width, height
	}}
}

// lookupEnv returns the value of a variable, or the empty string where it is not set.
func (f *Factory) lookupEnv(name string) string {
	for _, entry := range f.Environ {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// WithKubeconfig returns a Factory for the cluster of one kubeconfig. Streams, clock and namespace stay as they are.
func (f *Factory) WithKubeconfig(kubeconfig string) *Factory {
	other := NewFactory(f.IO, f.Now)
	other.Interrupts, other.Name, other.Args, other.Environ = f.Interrupts, f.Name, f.Args, f.Environ
	other.ConfigFlags.KubeConfig = &kubeconfig
	other.ConfigFlags.Namespace = f.ConfigFlags.Namespace
	return other
}
