package runtimeserver

import (
	"strings"
	"unicode/utf8"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// textual splits an environment into the entries that are UTF-8, and the names of the others. The messages of the contract
// cannot carry those, and the environment that an image or a Pod sets has none.
func textual(environ []string) (kept, dropped []string) {
	for _, entry := range environ {
		if utf8.ValidString(entry) {
			kept = append(kept, entry)
			continue
		}
		name, _, _ := strings.Cut(entry, "=")
		dropped = append(dropped, strings.ToValidUTF8(name, "\uFFFD"))
	}
	return kept, dropped
}

// mergeEnvironment returns inherited ("name=value") with added after it, each name once, with its last value, at the
// place where the name appeared first.
func mergeEnvironment(inherited []string, added []*runtimev1.EnvVar) []*runtimev1.EnvVar {
	merged := make([]*runtimev1.EnvVar, 0, len(inherited)+len(added))
	places := make(map[string]int, cap(merged))
	put := func(name, value string) {
		entry := &runtimev1.EnvVar{Name: name, Value: value}
		if place, ok := places[name]; ok {
			merged[place] = entry
			return
		}
		places[name] = len(merged)
		merged = append(merged, entry)
	}
	for _, entry := range inherited {
		if name, value, ok := strings.Cut(entry, "="); ok {
			put(name, value)
		}
	}
	for _, entry := range added {
		put(entry.GetName(), entry.GetValue())
	}
	return merged
}
