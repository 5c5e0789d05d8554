package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	const m = module + "/"
	cases := map[string]struct {
		in   pkg
		want []string
	}{
		"a room may import what stands above it": {
			in: pkg{ImportPath: m + "runtimed/server", Imports: []string{"context", m + "apis/runtime/v1", m + "statuspatch", m + "runtimed"}},
		},
		"a room may not import what stands below it": {
			in:   pkg{ImportPath: m + "runtimed", Imports: []string{m + "scheduler"}},
			want: []string{m + "runtimed imports " + m + "scheduler: scheduler stands below runtimed"},
		},
		"a name that begins like a room's is another room": {
			in:   pkg{ImportPath: m + "apis/core/v1alpha1", Imports: []string{m + "workflow"}},
			want: []string{m + "apis/core/v1alpha1 imports " + m + "workflow: apis/core imports nothing of ours but []"},
		},
		"the runtime server knows no Kubernetes, not even in tests": {
			in: pkg{ImportPath: m + "runtimeserver", Imports: []string{"k8s.io/api/core/v1"}, XTestImports: []string{"sigs.k8s.io/yaml"}},
			want: []string{
				"a test of " + m + "runtimeserver imports sigs.k8s.io/yaml: runtimeserver must not know sigs.k8s.io",
				m + "runtimeserver imports k8s.io/api/core/v1: runtimeserver must not know k8s.io",
			},
		},
		"a scheduler plugin imports the framework and the APIs": {
			in: pkg{
				ImportPath: m + "scheduler/plugins/capacity",
				Imports:    []string{m + "scheduler/framework", m + "apis/core/v1alpha1"},
			},
		},
		"a scheduler plugin imports no other plugin": {
			in: pkg{ImportPath: m + "scheduler/plugins/capacity", Imports: []string{m + "scheduler/plugins/readiness"}},
			want: []string{m + "scheduler/plugins/capacity imports " + m +
				"scheduler/plugins/readiness: a scheduler plugin imports scheduler/framework and apis only"},
		},
		"the registry of plugins imports them all": {
			in: pkg{ImportPath: m + "scheduler/plugins", Imports: []string{m + "scheduler/plugins/capacity"}},
		},
		"controllers of one group do not import those of another": {
			in: pkg{ImportPath: m + "controllers/workflows", Imports: []string{m + "controllers/core"}},
			want: []string{m + "controllers/workflows imports " + m +
				"controllers/core: controllers/workflows must not know controllers/core"},
		},
		"nothing imports cmd, not even a test": {
			in:   pkg{ImportPath: m + "test/system", TestImports: []string{m + "cmd/krt"}},
			want: []string{"a test of " + m + "test/system imports " + m + "cmd/krt: nothing imports cmd"},
		},
		"manager may import the embedded manifests": {
			in: pkg{ImportPath: m + "manager", Imports: []string{m + "config"}},
		},
		"krt may not import the embedded manifests, its tests may": {
			in:   pkg{ImportPath: m + "krt", Imports: []string{m + "config"}, TestImports: []string{m + "config"}},
			want: []string{m + "krt imports " + m + "config: config stands below krt"},
		},
		"a test may import the harness of the suites": {
			in: pkg{ImportPath: m + "scheduler", TestImports: []string{m + "test/envtest/cluster"}},
		},
		"product code may not import the harness of the suites": {
			in:   pkg{ImportPath: m + "scheduler", Imports: []string{m + "test/envtest/cluster"}},
			want: []string{m + "scheduler imports " + m + "test/envtest/cluster: test stands below scheduler"},
		},
		"a folder without a room is an error": {
			in:   pkg{ImportPath: m + "helpers"},
			want: []string{m + "helpers: no room holds this folder; give it a place in hack/rooms/table.go"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, check(tc.in)); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
}
