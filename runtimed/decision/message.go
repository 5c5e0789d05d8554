package decision

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxMessage is the schema's bound of status.message. Unit: bytes here, so never more characters.
	maxMessage = 4096
	// maxOutputsMessage bounds what a message says about outputs besides something else. Unit: bytes.
	maxOutputsMessage = 512
	// MaxTail bounds what a message quotes of standard error. Unit: bytes.
	MaxTail = 2048
	// maxTailLines bounds the lines that a message quotes of standard error.
	maxTailLines = 10
)

// Tail returns the last lines of what was written to standard error, as text fit for a message. Its argument may begin
// in the middle of a line or a character.
func Tail(stderr []byte) string {
	text := strings.ToValidUTF8(string(stderr), "\uFFFD")
	text = strings.TrimRight(text, "\r\n\t ")
	lines := strings.Split(text, "\n")
	if len(lines) > maxTailLines {
		lines = lines[len(lines)-maxTailLines:]
	}
	text = strings.Join(lines, "\n")
	if len(text) <= MaxTail {
		return text
	}
	text = text[len(text)-MaxTail:]
	for text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
