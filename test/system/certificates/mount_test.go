package certificates

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mount is a directory with the content of a Secret, brought up to date as a kubelet does it: the new content is written
// beside the old one, and a symbolic link is moved. What was mounted stays while there is no Secret.
type mount struct {
	dir    string
	secret client.ObjectKey
	reader client.Reader

	mu       sync.Mutex
	version  string // of the Secret
	current  string // the directory that the link leads to
	isHeld   bool
	lastData map[string][]byte
}

// newMount waits for the Secret, as a Pod does, and follows it until the test ends.
func newMount(t *testing.T, reader client.Reader, secret client.ObjectKey) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir(), secret: secret, reader: reader}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		m.follow(ctx, t, ready)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-ready:
	case <-time.After(patience):
		t.Fatalf("there is no Secret %s", secret)
	}
	return m
}

func (m *mount) follow(ctx context.Context, t *testing.T, ready chan<- struct{}) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := m.update(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("mounting Secret %s: %v", m.secret, err)
			return
		}
		if ready != nil && m.mounted() != "" {
			close(ready)
			ready = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update swaps the content where the Secret has changed.
func (m *mount) update(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := m.reader.Get(ctx, m.secret, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isHeld || secret.ResourceVersion == m.version || len(secret.Data[corev1.TLSCertKey]) == 0 {
		return nil
	}
	next := fmt.Sprintf("..%s", secret.ResourceVersion)
	if err := os.Mkdir(filepath.Join(m.dir, next), 0o700); err != nil {
		return err
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(m.dir, next, name), content, 0o600); err != nil {
			return err
		}
	}
	const link, moved = "..data", "..data_tmp"
	if err := os.Symlink(next, filepath.Join(m.dir, moved)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(m.dir, moved), filepath.Join(m.dir, link)); err != nil {
		return err
	}
	for name := range secret.Data {
		if err := os.Symlink(filepath.Join(link, name), filepath.Join(m.dir, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	old := m.current
	m.version, m.current, m.lastData = secret.ResourceVersion, next, maps.Clone(secret.Data)
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(m.dir, old))
}

// mounted is the certificate that lies in the directory, as PEM.
func (m *mount) mounted() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.lastData[corev1.TLSCertKey])
}

// hold lets the content fall behind the Secret, as kubelets do for a minute or so, until it is released.
func (m *mount) hold(isHeld bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isHeld = isHeld
}
