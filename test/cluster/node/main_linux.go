package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main is the whole life of a node. Its parent moves the interface into the node's network before it writes the Config.
func Main(ctx context.Context, config io.Reader) error {
	var c Config
	if err := json.NewDecoder(config).Decode(&c); err != nil {
		return fmt.Errorf("reading the configuration of the node: %w", err)
	}
	if os.Getpid() != 1 {
		return errors.New("the node is not the first process of a namespace: it is started by up, not by hand")
	}
	if err := syscall.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := mountAll(c.State); err != nil {
		return err
	}
	if err := connect(c); err != nil {
		return err
	}
	listener, err := listen(c.Socket)
	if err != nil {
		return err
	}
	// Nothing is waited for by the commands above from here on.
	s := &supervisor{logs: c.Logs, parts: map[string]*running{}}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go s.reap(children)
	server := &http.Server{Handler: s.handler()}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("taking orders: %w", err)
	}
	return nil
}

// wishes are settings of the whole machine that a kubelet changes to its liking. It finds them as it likes them, in files
// that hide the true ones, and the machine keeps its own.
var wishes = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func mountAll(state string) error {
	// What the machine mounts is seen here too, and nothing the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("parting from the machine's mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, dir := range hidden {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("mounting an empty %s: %w", dir, err)
		}
	}
	// The volumes of Pods have to reach their containers.
	if err := unix.Mount(state, state, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting the state directory: %w", err)
	}
	if err := unix.Mount("", state, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing the mounts of the state directory: %w", err)
	}
	for name, value := range wishes {
		if err := grant(name, value); err != nil {
			return err
		}
	}
	return nil
}

func grant(name, value string) error {
	file := filepath.Join("/run/sysctl", strings.ReplaceAll(name, "/", "."))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("hiding a setting of the machine: %w", err)
	}
	if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
		return fmt.Errorf("hiding a setting of the machine: %w", err)
	}
	if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hiding setting %s of the machine: %w", name, err)
	}
	return nil
}

// connect gives the interface its address, and lets the node route between Pods and Services.
func connect(c Config) error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", c.Address, "dev", Interface},
		{"link", "set", Interface, "up"},
		{"route", "add", "default", "via", c.Gateway},
	} {
		if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("running ip %s: %w: %s", strings.Join(args, " "), err, output)
		}
	}
	for setting, needed := range map[string]bool{
		"net/ipv4/ip_forward": true,
		// Without it answers of a Service's Pod to a Pod on the same bridge do not come back the way they went.
		"net/bridge/bridge-nf-call-iptables": false,
	} {
		err := os.WriteFile(filepath.Join("/proc/sys", setting), []byte("1"), 0o644)
		if err != nil && (needed || !os.IsNotExist(err)) {
			return fmt.Errorf("setting %s: %w", setting, err)
		}
	}
	return nil
}
