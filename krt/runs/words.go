package runs

import (
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
