package runs

import (
	"fmt"
	"strings"

	"kruntimes.io/kruntimes/krt/cli"
)

// wordWidth bounds what is shown of one word of a command.
const wordWidth = 160

// CommandLine writes words so that a person sees where each begins and ends.
func CommandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = cli.OneLine(w, wordWidth); w == "" || strings.ContainsFunc(w, needsQuotes) {
			quoted[i] = Quote(w)
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool { return r <= ' ' || strings.ContainsRune(`'"\$*?;&|<>()`, r) }

// Quote puts a word into single quotes, as a shell takes it.
func Quote(word string) string {
	return "'" + strings.ReplaceAll(cli.OneLine(word, wordWidth), "'", `'\''`) + "'"
}

// Bytes writes a number of bytes for people: three digits, or the whole number below 1,024.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1024; value < 999.5 || unit == "TiB" {
			return fmt.Sprintf("%.*f %s", digitsAfter(value), value, unit)
		}
	}
	return "" // never
}

// digitsAfter is how many digits follow the point so that there are three of them.
func digitsAfter(value float64) int {
	switch {
	case value < 9.995:
		return 2
	case value < 99.95:
		return 1
	default:
		return 0
	}
}
