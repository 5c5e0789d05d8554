package kubelet

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mounts maps the paths at which volumes appear inside a container to the directories that hold them on the host. The
// longest path comes first, so that a volume mounted below another one is found.
type mounts []mount

type mount struct{ path, dir string }

// newMounts reads the mounts of a container; dirsByVolume are the directories of the Pod's volumes.
func newMounts(volumeMounts []corev1.VolumeMount, dirsByVolume map[string]string) mounts {
	m := make(mounts, 0, len(volumeMounts))
	for _, v := range volumeMounts {
		dir, ok := dirsByVolume[v.Name]
		path := filepath.Clean(v.MountPath)
		if !ok || path == "/" { // there is no root of its own to replace
			continue
		}
		m = append(m, mount{path: path, dir: filepath.Join(dir, v.SubPath)})
	}
	slices.SortStableFunc(m, func(a, b mount) int { return cmp.Compare(len(b.path), len(a.path)) })
	return m
}

// translate replaces every path below a mount, wherever in text it stands: alone, after "--flag=", in a list with
// colons, or in a line of shell.
func (m mounts) translate(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		if hit, ok := m.at(text, i); ok {
			out.WriteString(hit.dir)
			i += len(hit.path)
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

// at returns the mount whose path stands at position i of text, as a whole and not as a part of a longer name.
func (m mounts) at(text string, i int) (mount, bool) {
	if text[i] != '/' || i > 0 && isPathByte(text[i-1]) {
		return mount{}, false
	}
	for _, candidate := range m {
		rest, found := strings.CutPrefix(text[i:], candidate.path)
		if found && (rest == "" || rest[0] == '/' || !isPathByte(rest[0])) {
			return candidate, true
		}
	}
	return mount{}, false
}

// isPathByte tells whether b may be part of a path, so that a neighbour of one is not mistaken for its end.
func isPathByte(b byte) bool {
	return b == '/' || b == '.' || b == '_' || b == '-' || b == '~' || b >= 0x80 ||
		'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// portArgument finds an argument that tells a program to listen on one of the container's ports, such as
// "--health-address=:8086" or "0.0.0.0:8086". It returns what stands before the host and the port.
func portArgument(argument string, ports []corev1.ContainerPort) (before string, port int32, ok bool) {
	colon := strings.LastIndexByte(argument, ':')
	if colon < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(argument[colon+1:], 10, 16)
	if err != nil || !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == int32(number) }) {
		return "", 0, false
	}
	before = argument[:colon]
	for _, host := range []string{"0.0.0.0", "[::]", "127.0.0.1", "localhost"} {
		if rest, found := strings.CutSuffix(before, host); found && (rest == "" || !isPathByte(rest[len(rest)-1])) {
			return rest, int32(number), true
		}
	}
	return before, int32(number), before == "" || strings.HasSuffix(before, "=")
}
