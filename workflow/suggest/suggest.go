// Package suggest finds the name that somebody probably meant. It is pure.
package suggest

import (
	"fmt"
	"iter"
	"strings"
)

// maxLength bounds the names that are compared: longer ones are no slip of a finger. Unit: bytes.
const maxLength = 80

// maxDistance bounds the slips between a name and a suggestion.
const maxDistance = 3

// Nearest returns the candidate that differs from name by the fewest slips: a character too many, missing, wrong, or
// swapped with its neighbour. A third of the name may be wrong, three characters at most; upper and lower case count as
// the same. Of several such candidates it is the one that sorts first, whatever their order. It is empty where no
// candidate is near, and name itself is no candidate.
func Nearest(name string, candidates iter.Seq[string]) string {
	if len(name) > maxLength {
		return ""
	}
	nearest, fewest := "", maxDistance+1
	lower := strings.ToLower(name)
	for candidate := range candidates {
		limit := min(maxDistance, max(len(name), len(candidate))/3, fewest)
		if candidate == name || candidate == "" || len(candidate) > maxLength {
			continue
		}
		slips := distance(lower, strings.ToLower(candidate), limit)
		if slips > limit || slips == fewest && candidate > nearest {
			continue
		}
		nearest, fewest = candidate, slips
	}
	return nearest
}

// DidYouMean returns the end of an error message: ": did you mean "x"?", or nothing where no candidate is near.
func DidYouMean(name string, candidates iter.Seq[string]) string {
	if nearest := Nearest(name, candidates); nearest != "" {
		return fmt.Sprintf(": did you mean %q?", nearest)
	}
	return ""
}

// distance counts the slips between a and b, or returns some number above limit where there are more. It is the optimal
// string alignment distance, which is Levenshtein's with swapped neighbours as one slip. Only the cells of the table
// that lie within limit of its diagonal are filled: all others are above limit.
func distance(a, b string, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) > limit || max(len(a), len(b)) > maxLength {
		return limit + 1
	}
	var rows [3][maxLength + 2]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range min(len(b), limit) + 2 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		from, to := max(1, i-limit), min(len(b), i+limit)
		row[from-1], row[to+1] = limit+1, limit+1
		if from == 1 {
			row[0] = i
		}
		least := row[from-1]
		for j := from; j <= to; j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
