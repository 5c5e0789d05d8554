package oom

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCounter(t *testing.T) {
	const v1Control = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
	const v2Events = "low 0\nhigh 0\nmax 12\noom 5\noom_kill 4\noom_group_kill 1\n"
	cases := map[string]struct {
		files map[string]string
		want  int64
	}{
		"cgroup v2, in a container that sees its cgroup as the top": {
			files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": v2Events},
			want:  4,
		},
		"cgroup v2, below the top": {
			files: map[string]string{
				"proc/self/cgroup":                           "0::/user.slice/a:b\n",
				"sys/fs/cgroup/user.slice/a:b/memory.events": v2Events,
				"sys/fs/cgroup/memory.events":                "oom_kill 99\n",
			},
			want: 4,
		},
		"cgroup v1, below the top": {
			files: map[string]string{
				"proc/self/cgroup": "4:memory:/kubepods/pod1\n0::/\n",
				"sys/fs/cgroup/memory/kubepods/pod1/memory.oom_control": v1Control,
				"sys/fs/cgroup/memory/memory.oom_control":               "oom_kill 99\n",
			},
			want: 3,
		},
		"cgroup v1, whose path is that of the host": {
			files: map[string]string{
				"proc/self/cgroup":                        "9:cpu,memory:/kubepods/pod1\n",
				"sys/fs/cgroup/memory/memory.oom_control": v1Control,
			},
			want: 3,
		},
		"cgroup v1 for memory beside v2": {
			files: map[string]string{
				"proc/self/cgroup":                          "4:memory:/m\n0::/u\n",
				"sys/fs/cgroup/memory/m/memory.oom_control": v1Control,
				"sys/fs/cgroup/unified/u/memory.events":     v2Events,
			},
			want: 3,
		},
		"cgroup v2 beside v1 for others": {
			files: map[string]string{
				"proc/self/cgroup":                      "4:cpu:/c\n0::/u\n",
				"sys/fs/cgroup/unified/u/memory.events": v2Events,
			},
			want: 4,
		},
		"a path that leads out of the mount": {
			files: map[string]string{
				"proc/self/cgroup":            "0::/../../../secret\n",
				"secret/memory.events":        "oom_kill 99\n",
				"sys/fs/cgroup/memory.events": v2Events,
			},
			want: 4,
		},
		"a kernel that does not count": {
			files: map[string]string{
				"proc/self/cgroup":                        "4:memory:/\n",
				"sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
			},
		},
		"a count that is no number": {
			files: map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill many\n"},
		},
		"a membership that is garbage": {files: map[string]string{"proc/self/cgroup": "memory\n::\n\n"}},
		"no cgroups":                   {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				put(t, filepath.Join(root, file), text)
			}
			if got := NewCounter(root).Kills(); got != c.want {
				t.Errorf("got %d kills, want %d", got, c.want)
			}
		})
	}
}

func TestCounterFollowsTheFile(t *testing.T) {
	root := t.TempDir()
	events := filepath.Join(root, "sys/fs/cgroup/memory.events")
	put(t, filepath.Join(root, "proc/self/cgroup"), "0::/\n")
	put(t, events, "oom_kill 0\n")
	counter := NewCounter(root)
	put(t, events, "oom_kill 2\n")
	if got := counter.Kills(); got != 2 {
		t.Errorf("got %d kills, want 2", got)
	}
	if err := os.Remove(events); err != nil {
		t.Fatal(err)
	}
	if got := counter.Kills(); got != 0 {
		t.Errorf("got %d kills without the file, want 0", got)
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzPaths(f *testing.F) {
	f.Add("4:memory:/a\n0::/b\n")
	f.Add("1:name=systemd:/x:y\n::\n:\n")
	f.Fuzz(func(t *testing.T, membership string) {
		root := t.TempDir()
		v1, v2 := paths(membership)
		for _, cgroup := range []string{v1, v2} {
			for _, file := range candidates(root, cgroup, "memory.events") {
				if rel, err := filepath.Rel(root, file); err != nil || !filepath.IsLocal(rel) {
					t.Errorf("%q leads to %s, outside of %s", membership, file, root)
				}
			}
		}
	})
}
