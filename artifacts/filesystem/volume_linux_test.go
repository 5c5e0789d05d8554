package filesystem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/filesystem"
)

func mkfifo(tb testing.TB, path string) {
	tb.Helper()
	must(tb, syscall.Mkfifo(path, 0o600))
}

// mountVariable tells the process of a test to mount a small volume at this directory and to attack the store there.
const mountVariable = "KRUNTIMES_TEST_MOUNT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(mountVariable); dir != "" {
		if err := attackVolume(context.Background(), dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestVolumeThatIsFullOrReadOnly needs a volume of its own, and so a process with mounts of its own.
func TestVolumeThatIsFullOrReadOnly(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mountVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this kernel lets nobody have mounts of their own: %v", err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func attackVolume(ctx context.Context, dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	store := filesystem.New(dir)
	if err := store.Claim(ctx, run, artifacts.Owner{Run: "r"}); err != nil {
		return err
	}
	ref, err := store.Put(ctx, object("a"), strings.NewReader("kept"))
	if err != nil {
		return err
	}
	_, err = store.Put(ctx, object("a"), bytes.NewReader(make([]byte, 16<<20)))
	if err := expect("an artifact that does not fit", err, "no space left on device", syscall.ENOSPC); err != nil {
		return err
	}
	r, err := store.Open(ctx, ref)
	if err != nil {
		return err
	}
	if content, err := io.ReadAll(r); err != nil || string(content) != "kept" {
		return fmt.Errorf("the artifact before is %q and %w", content, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "runs", string(run), "unfinished")); err != nil || len(left) != 0 {
		return fmt.Errorf("left %v and %w", left, err)
	}
	if _, err := store.Put(ctx, object("b"), bytes.NewReader(make([]byte, 4<<20))); err != nil {
		return fmt.Errorf("an artifact that fits afterwards: %w", err)
	}
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("filling the volume: %w", err)
	}
	if err := expect("checking a full one", store.Check(ctx), "no space left on device", syscall.ENOSPC); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=8m"); err != nil {
		return fmt.Errorf("mounting again: %w", err)
	}
	_, err = store.Put(ctx, object("b"), strings.NewReader("b"))
	return errors.Join(
		expect("an artifact for a read-only one", err, "read-only file system", syscall.EROFS),
		expect("checking a read-only one", store.Check(ctx), "read-only file system", syscall.EROFS),
		expect("removing from a read-only one", store.Remove(ctx, run), "read-only file system", syscall.EROFS),
	)
}

func expect(doing string, err error, words string, errno syscall.Errno) error {
	var failed *artifacts.StoreError
	if !errors.As(err, &failed) || failed.Words != words || !errors.Is(err, errno) || failed.Passing {
		return fmt.Errorf("%s: got %w, want %s", doing, err, words)
	}
	return nil
}
