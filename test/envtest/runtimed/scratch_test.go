package runtimed

import "testing"

// TestNothingStaysInTheScratchVolume has scripts that leave something where runtimed made nothing.
func TestNothingStaysInTheScratchVolume(t *testing.T) {
	n := startNode(t)
	for name, text := range map[string]string{
		"renames-its-directory": `d=$(dirname "$HOME"); mv "$d" "$d.x"`,
		"leaves-a-link":         `ln -s / "$(dirname "$HOME")/../link"`,
		"leaves-a-closed-tree":  `d=$(dirname "$HOME")/../tree; mkdir -p "$d/a/b"; touch "$d/a/b/c"; chmod 0 "$d/a"`,
	} {
		run := n.submit(t, name, script(text))
		awaitEnd(t, run)
		n.awaitClean(t)
	}
}
