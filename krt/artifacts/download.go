package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/archive"
	"kruntimes.io/kruntimes/artifacts/beneath"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/complete"
)

// downloadOptions are the parsed command line of "krt artifacts download".
type downloadOptions struct {
	target  cli.Target
	names   []string
	dir     string
	maxSize quantity
	factory *cli.Factory
	// read writes the stored bytes of an artifact to a stream.
	read func(ctx context.Context, namespace, pod string, ref corev1alpha1.ArtifactRef, out io.Writer) error
}

// defaultMaxSize bounds what a directory may unpack to.
const defaultMaxSize = 100 << 30

const downloadLong = `Fetch artifacts of a Run or WorkflowRun: all of them, or those that are named. A file becomes a file, a directory a directory; those
of a WorkflowRun come into a directory for each job. The path of each is printed when it is complete.

What arrives is checked against the digest that was taken when it was stored, and appears under its name only then. What is
there already is never overwritten.

The bytes come through a Pod of the Runtime, which must be ready; it takes the right to create pods/exec.`

const downloadExample = `  krt artifacts download run nightly
  krt artifacts download run nightly report.txt -d /tmp
  krt artifacts download workflowrun ci
  krt artifacts download workflowrun ci build/dist.tgz -d out`

func newDownload(f *cli.Factory, runF func(context.Context, *downloadOptions) error) *cobra.Command {
	if runF == nil {
		runF = download
	}
	opts := &downloadOptions{factory: f, maxSize: defaultMaxSize}
	opts.read = func(ctx context.Context, namespace, pod string, ref corev1alpha1.ArtifactRef, out io.Writer) error {
		return catInPod(ctx, f, podContainer{namespace: namespace, pod: pod}, ref, out)
	}
	cmd := &cobra.Command{
		Use: "download {run|workflowrun} NAME [ARTIFACT...]", Short: "Fetch artifacts", Long: downloadLong, Example: downloadExample,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete.OneExecution(f),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts.target, opts.names, err = parseArguments(args); err != nil {
			return err
		}
		return runF(cmd.Context(), opts)
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.dir, "dir", "d", ".", "The `directory` to put them into; it is made where it is not there")
	flags.Var(&opts.maxSize, "max-size", "Refuse a directory whose files hold more than this `size`, such as 500Mi; what is stored is compressed")
	return cmd
}

// quantity is the value of a flag for a size in bytes.
type quantity int64

// Set implements pflag.Value.
func (q *quantity) Set(text string) error {
	value, err := resource.ParseQuantity(text)
	if err != nil || value.Sign() <= 0 {
		return fmt.Errorf("%q is not a size such as 500Mi or 2Gi", text)
	}
	*q = quantity(value.Value())
	return nil
}

// Type implements pflag.Value.
func (*quantity) Type() string { return "size" }

// String implements pflag.Value.
func (q *quantity) String() string {
	return resource.NewQuantity(int64(*q), resource.BinarySI).String()
}

// download does the work of the command: all artifacts, and then the errors.
func download(ctx context.Context, o *downloadOptions) error {
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	c, err := o.factory.Client()
	if err != nil {
		return err
	}
	h, err := find(ctx, c, namespace, o.target)
	if err != nil {
		return err
	}
	chosen, err := h.choose(o.names)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range chosen {
		if err := o.one(ctx, c, namespace, e); err != nil {
			errs = append(errs, fmt.Errorf("downloading %q: %w", e.Name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// one downloads one artifact and prints where it is.
func (o *downloadOptions) one(ctx context.Context, c client.Reader, namespace string, e entry) error {
	final, err := o.place(e)
	if err != nil {
		return err
	}
	pod, err := podOf(ctx, c, namespace, e.Runtime)
	if err != nil {
		return err
	}
	// All of it is made in a directory of its own, beside its place so that moving it there is one step.
	making, err := os.MkdirTemp(filepath.Dir(final), ".krt-download-")
	if err != nil {
		return fmt.Errorf("making a directory for what is incomplete: %w", err)
	}
	defer func() { _ = beneath.RemoveAll(making) }() // what was unpacked may be read-only
	progress := newProgress(o.factory, e)
	defer progress.end()
	fill := func(out io.Writer) error {
		received := newReceived(io.MultiWriter(out, progress))
		if err := o.read(ctx, namespace, pod, e.Artifact, received); err != nil {
			return err
		}
		return received.check(e.Artifact)
	}
	whole := filepath.Join(making, "whole")
	if e.Artifact.Type == corev1alpha1.ArtifactDirectory {
		err = o.makeDirectory(ctx, whole, fill)
	} else {
		err = makeFile(whole, fill)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(whole, final); err != nil {
		return fmt.Errorf("putting it into its place: %w", err)
	}
	progress.end()
	if _, err := fmt.Fprintln(o.factory.IO.Out, final); err != nil {
		return fmt.Errorf("telling where it is: %w", err)
	}
	return nil
}

// place is where an artifact goes; its directory is made. Names come from the cluster, so they are checked here as well.
func (o *downloadOptions) place(e entry) (string, error) {
	if err := artifacts.CheckName(e.Artifact.Name); err != nil {
		return "", err
	}
	final := filepath.Join(o.dir, filepath.FromSlash(e.Name))
	if !filepath.IsLocal(filepath.FromSlash(e.Name)) || filepath.Base(final) != e.Artifact.Name {
		return "", fmt.Errorf("the cluster says that it is called %q", e.Artifact.Name)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o777); err != nil {
		return "", fmt.Errorf("making the directory for it: %w", err)
	}
	switch _, err := os.Lstat(final); {
	case err == nil:
		return "", cli.WithHint(fmt.Errorf("%s exists", final), "remove it, or choose another directory with --dir")
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("looking at its place: %w", err)
	}
	return final, nil
}

// makeFile makes a file and has it filled.
func makeFile(path string, fill func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("making the file: %w", err)
	}
	if err := fill(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing the file: %w", err)
	}
	return nil
}

// makeDirectory makes a directory and unpacks into it what fill writes.
func (o *downloadOptions) makeDirectory(ctx context.Context, path string, fill func(io.Writer) error) error {
	if err := os.Mkdir(path, 0o777); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	packed, into := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(into)
		_ = into.CloseWithError(err) // nil ends what is read
		filled <- err
	}()
	err = archive.Extract(ctx, packed, root, archive.ExtractOptions{MaxBytes: int64(o.maxSize)})
	_ = packed.CloseWithError(errUnpacked)
	// What was received wrongly cannot be unpacked either; the former is the reason.
	if fillErr := <-filled; fillErr != nil && !errors.Is(fillErr, errUnpacked) {
		return fillErr
	}
	if errors.Is(err, archive.ErrTooLarge) {
		return cli.WithHint(fmt.Errorf("unpacking it: %w", err), "if it is meant to be that large, name a bound with --max-size")
	}
	if err != nil {
		return fmt.Errorf("unpacking it: %w", err)
	}
	return nil
}

// errUnpacked ends the writing to what nobody unpacks any more.
var errUnpacked = errors.New("it cannot be unpacked")
