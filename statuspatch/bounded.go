package statuspatch

import "unicode/utf8"

// ellipsis stands where text was left out.
const ellipsis = "…"

// Bounded returns text, cut to at most size bytes with "…" at its end. It cuts between characters, and leaves bytes that
// are no UTF-8 as they are. A size below 3 cuts without a sign.
func Bounded(text string, size int) string {
	if len(text) <= size {
		return text
	}
	mark := ellipsis
	if size < len(mark) {
		mark = ""
	}
	end := max(size-len(mark), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
