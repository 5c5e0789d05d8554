package artifacts

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/runs"
)

// received passes bytes on, and knows how many they were and what their digest is.
type received struct {
	to    io.Writer
	hash  hash.Hash
	bytes int64
}

func newReceived(to io.Writer) *received { return &received{to: to, hash: sha256.New()} }

// Write implements io.Writer.
func (r *received) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	r.hash.Write(p[:n]) // never fails
	r.bytes += int64(n)
	return n, err
}

// check tells whether what has been received is what was stored.
func (r *received) check(ref corev1alpha1.ArtifactRef) error {
	digest := artifacts.Digest(r.hash)
	switch {
	case ref.Digest != "" && r.bytes != ref.SizeBytes:
		return fmt.Errorf("%d bytes have arrived, and %d were stored", r.bytes, ref.SizeBytes)
	case ref.Digest != "" && digest != ref.Digest:
		return fmt.Errorf("what has arrived is not what was stored: its digest is %s, not %s", digest, ref.Digest)
	}
	return nil
}

// redraw is how often the progress is drawn.
const redraw = 100 * time.Millisecond

// progress shows on a terminal how much of an artifact has arrived. Without a terminal it shows nothing.
type progress struct {
	out         io.Writer
	now         func() time.Time
	name        string
	total, done int64
	began, last time.Time
}

func newProgress(f *cli.Factory, e entry) *progress {
	p := &progress{out: io.Discard, now: f.Now, name: e.Name, total: e.Artifact.SizeBytes, began: f.Now()}
	if f.Terminal(f.IO.ErrOut).Live {
		p.out = f.IO.ErrOut
	}
	return p
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if now := p.now(); now.Sub(p.last) >= redraw {
		p.last = now
		fmt.Fprint(p.out, "\r\x1b[K"+p.line(now))
	}
	return len(b), nil
}

// line is what is shown.
func (p *progress) line(now time.Time) string {
	text := cli.OneLine(p.name, 40) + "  " + runs.Bytes(p.done)
	if p.total > 0 {
		text += fmt.Sprintf(" of %s, %d %%", runs.Bytes(p.total), min(p.done*100/p.total, 100))
	}
	if took := now.Sub(p.began).Seconds(); took >= 1 {
		text += fmt.Sprintf(", %s/s", runs.Bytes(int64(float64(p.done)/took)))
	}
	return text
}

// end removes the line. It may be called again.
func (p *progress) end() {
	if !p.last.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.last = time.Time{}
	}
}
