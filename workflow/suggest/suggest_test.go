package suggest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	cases := map[string]struct {
		name       string
		candidates []string
		want       string
	}{
		"a missing character":                          {name: "step", candidates: []string{"inputs", "jobs", "steps"}, want: "steps"},
		"a character too many":                         {name: "jobss", candidates: []string{"inputs", "jobs", "steps"}, want: "jobs"},
		"a wrong character":                            {name: "teat", candidates: []string{"build", "test"}, want: "test"},
		"swapped neighbours are one slip":              {name: "biuld", candidates: []string{"build", "deploy"}, want: "build"},
		"a wrong case is no slip":                      {name: "INPUTS", candidates: []string{"inputs"}, want: "inputs"},
		"the nearer one wins, wherever it stands":      {name: "package", candidates: []string{"packs", "packages"}, want: "packages"},
		"of two as near the one that sorts first":      {name: "test", candidates: []string{"rest", "best"}, want: "best"},
		"a third of a long name may be wrong":          {name: "integration", candidates: []string{"integrxxxon"}, want: "integrxxxon"},
		"more than that is another name":               {name: "integration", candidates: []string{"intexxxxxon"}},
		"names of two characters have no near ones":    {name: "ab", candidates: []string{"ac", "a"}},
		"the name itself is not suggested":             {name: "test", candidates: []string{"test"}},
		"names of very different length":               {name: "test", candidates: []string{"test-the-whole-tree"}},
		"nothing to choose from":                       {name: "test"},
		"an absurdly long name is no slip of a finger": {name: strings.Repeat("a", 100), candidates: []string{strings.Repeat("a", 99)}},
		"an absurdly long candidate":                   {name: strings.Repeat("a", 80), candidates: []string{strings.Repeat("a", 81)}},
		"characters of several bytes":                  {name: "größe", candidates: []string{"größen"}, want: "größen"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Nearest(tc.name, slices.Values(tc.candidates)); got != tc.want {
				t.Errorf("Nearest(%q) = %q, want %q", tc.name, got, tc.want)
			}
			slices.Reverse(tc.candidates)
			if got := Nearest(tc.name, slices.Values(tc.candidates)); got != tc.want {
				t.Errorf("in reverse order Nearest(%q) = %q, want %q", tc.name, got, tc.want)
			}
		})
	}
}

func TestDidYouMean(t *testing.T) {
	got := []string{DidYouMean("step", slices.Values([]string{"steps"})), DidYouMean("github", slices.Values([]string{"steps"}))}
	if diff := cmp.Diff([]string{`: did you mean "steps"?`, ""}, got); diff != "" {
		t.Errorf("endings (-want +got):\n%s", diff)
	}
}

// FuzzDistance holds the distance against the definition, written down recursively.
func FuzzDistance(f *testing.F) {
	f.Add("biuld", "build", 2)
	f.Add("abc", "ca", 3)
	f.Add("", "abc", 3)
	f.Fuzz(func(t *testing.T, a, b string, limit int) {
		if len(a) > 8 || len(b) > 8 || limit < 0 || limit > 8 {
			t.Skip()
		}
		checkDistance(t, a, b, limit)
	})
}

// TestDistanceOfAllShortWords does the same as FuzzDistance for all words of up to four letters out of two or three.
func TestDistanceOfAllShortWords(t *testing.T) {
	words := []string{""}
	for i := 0; len(words[i]) < 4; i++ {
		words = append(words, words[i]+"a", words[i]+"b")
		if len(words[i]) < 3 {
			words = append(words, words[i]+"c")
		}
	}
	for _, a := range words {
		for _, b := range words {
			for limit := range 5 {
				checkDistance(t, a, b, limit)
			}
		}
	}
}

func checkDistance(t *testing.T, a, b string, limit int) {
	t.Helper()
	want, got := naive(a, b), distance(a, b, limit)
	if want <= limit && got != want || want > limit && got <= limit {
		t.Errorf("distance(%q, %q, %d) = %d, want %d", a, b, limit, got, want)
	}
}

func naive(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	i, j := len(a)-1, len(b)-1
	wrong := 1
	if a[i] == b[j] {
		wrong = 0
	}
	fewest := min(naive(a[:i], b)+1, naive(a, b[:j])+1, naive(a[:i], b[:j])+wrong)
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		fewest = min(fewest, naive(a[:i-1], b[:j-1])+1)
	}
	return fewest
}
