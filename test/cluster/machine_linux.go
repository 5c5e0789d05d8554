package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kruntimes.io/kruntimes/test/cluster/node"
)

// cniPlugins is where Debian puts them.
const cniPlugins = "/usr/lib/cni"

// packageOf says in which Debian package each program is that the node runs and that is not built from the pins.
var packageOf = map[string]string{
	"containerd":               "containerd",
	"containerd-shim-runc-v2":  "containerd",
	"ctr":                      "containerd",
	"runc":                     "runc",
	"iptables":                 "iptables",
	"conntrack":                "conntrack",
	"ip":                       "iproute2",
	cniPlugins + "/bridge":     "containernetworking-plugins",
	cniPlugins + "/host-local": "containernetworking-plugins",
	cniPlugins + "/portmap":    "containernetworking-plugins",
	cniPlugins + "/loopback":   "containernetworking-plugins",
}

// findProgram looks a program up where the parts of the node do, whatever PATH this process has.
func findProgram(name string) (string, error) {
	if filepath.IsAbs(name) {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(nodePath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("finding %s in %s: %w", name, nodePath, exec.ErrNotFound)
}

// findPrograms returns the paths of the programs by their names, or an error that names the packages that are missing.
func findPrograms() (map[string]string, error) {
	paths, lacking := map[string]string{}, map[string]bool{}
	for program, pkg := range packageOf {
		path, err := findProgram(program)
		if err != nil {
			lacking[pkg] = true
			continue
		}
		paths[program] = path
	}
	if len(lacking) > 0 {
		return nil, fmt.Errorf("the node needs programs of these Debian packages: %s (hack/cluster-packages.sh installs them)",
			strings.Join(slices.Sorted(maps.Keys(lacking)), " "))
	}
	return paths, nil
}

// link is the network between the machine and a node.
type link struct {
	host, node, prefix string
}

// chooseLink takes the first small network that no interface of the machine is in.
func chooseLink() (link, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return link{}, fmt.Errorf("listing the machine's addresses: %w", err)
	}
	var taken []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			taken = append(taken, prefix)
		}
	}
	for i := range 64 {
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, 0, byte(4 * i)}), 30)
		if !slices.ContainsFunc(taken, candidate.Overlaps) {
			host := candidate.Addr().Next()
			return link{host: host.String(), node: host.Next().String(), prefix: "/30"}, nil
		}
	}
	return link{}, errors.New("the networks for clusters on this machine, 10.213.0.0/24, are all taken")
}

// create makes the interface, with its other end in the network of the process.
func (l link) create(ctx context.Context, name string, pid int) error {
	for _, args := range [][]string{
		{"link", "add", name, "type", "veth", "peer", "name", node.Interface, "netns", strconv.Itoa(pid)},
		{"address", "add", l.host + l.prefix, "dev", name},
		{"link", "set", name, "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	path, err := findProgram("ip")
	if err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running ip %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies returns the root of each hierarchy of cgroups: one with version 2, one per controller with version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("listing the cgroup hierarchies: %w", err)
	}
	var roots []string
	for _, entry := range entries {
		root := filepath.Join(cgroupRoot, entry.Name())
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil && entry.IsDir() {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

// makeCgroups makes the group below which the kubelet makes all others.
func makeCgroups(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
			wanted := "+" + strings.Join(strings.Fields(string(controllers)), " +")
			if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte(wanted), 0o644); err != nil && len(wanted) > 1 {
				return fmt.Errorf("handing cgroup controllers on: %w", err)
			}
		}
		group := filepath.Join(root, name)
		if err := os.Mkdir(group, 0o755); err != nil && !os.IsExist(err) {
			return fmt.Errorf("making a cgroup: %w", err)
		}
		// With version 1 a new group has no processors until it is given some.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return fmt.Errorf("giving processors to a cgroup: %w", err)
			}
		}
	}
	return nil
}
