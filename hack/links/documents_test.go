package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestReasonsAreDocumented holds the table of reasons in docs/runs.md against the closed list of the API.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/runs.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| (?:Failed|Timeout|Cancelled|Pending)[^|]* \\|")
	var got []corev1alpha1.RunReason
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		got = append(got, corev1alpha1.RunReason(m[1]))
	}
	want := corev1alpha1.RunReasons()
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons in docs/runs.md (-want +got):\n%s", diff)
	}
}
