package main

import "strings"

// module is the path of the product's module.
const module = "kruntimes.io/kruntimes"

// A room is a folder of the tree with a place in the order of imports.
type room struct {
	// path is the folder, from the root of the module.
	path string
	// only, where it is not nil, lists prefixes of folders: no other folder of ours may be imported.
	only []string
	// never lists prefixes of folders that may not be imported though they stand above.
	never []string
	// also lists prefixes of folders that may be imported though they stand below.
	also []string
	// readers, where it is not nil, lists prefixes of the only folders below that may import this room.
	readers []string
	// foreign lists prefixes of import paths of other modules that may not be imported.
	foreign []string
}

// The runtime server knows processes, not Kubernetes: one small static binary.
var (
	cluster    = []string{"apis/core", "apis/workspaces", "apis/workflows", "statuspatch", "telemetry", "election"}
	kubernetes = []string{"k8s.io/", "sigs.k8s.io/"}
)

// noWorkflows are the folders that placement and execution must not know.
var noWorkflows = []string{"apis/workflows", "workflow"}

// rooms is the table of docs/architecture.md: a room imports itself and rooms that stand above it. The depguard rules of
// .golangci.yml say the same in the editor; a test holds them against this table.
var rooms = []room{
	{path: "apis/core", only: []string{}},
	{path: "apis/workspaces", only: []string{"apis/core"}},
	{path: "apis/workflows", only: []string{"apis/core"}},
	{path: "apis/runtime", only: []string{}},
	{path: "statuspatch"},
	{path: "version"},
	{path: "groups"},
	{path: "election"},
	{path: "telemetry"},
	{path: "workflow"},
	{path: "artifacts"},
	{path: "runtimeserver", never: cluster, foreign: kubernetes},
	{path: "runtimed", never: noWorkflows},
	{path: "scheduler", never: noWorkflows},
	{path: "controllers/core"},
	{path: "controllers/workspaces", never: []string{"controllers"}},
	{path: "controllers/workflows", never: []string{"controllers"}},
	{path: "webhooks", never: []string{"controllers"}},
	{path: "manager", also: []string{"config"}},
	{path: "devcluster", also: []string{"config"}},
	{path: "krt"},
	{path: "cmd/runtime-server", never: cluster, foreign: kubernetes},
	{path: "cmd"},
	{path: "config", only: []string{}, readers: []string{"test", "hack"}},
	{path: "test", readers: []string{"hack"}},
	{path: "hack"},
}

// pluginRoot is where each folder is a scheduler plugin, which imports the framework and the APIs only.
const pluginRoot = "scheduler/plugins/"

// under tells whether folder is prefix or lies below it.
func under(folder, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return folder == prefix || strings.HasPrefix(folder, prefix+"/")
}

// underAny tells whether folder is one of the prefixes or lies below one.
func underAny(folder string, prefixes []string) bool {
	for _, p := range prefixes {
		if under(folder, p) {
			return true
		}
	}
	return false
}

// placeOf returns the index in rooms of the room that holds folder, or -1.
func placeOf(folder string) int {
	for i, r := range rooms {
		if under(folder, r.path) {
			return i
		}
	}
	return -1
}
