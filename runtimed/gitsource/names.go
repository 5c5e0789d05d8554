package gitsource

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkName refuses a name in a directory of the repository that means something else than a file of that directory,
// here or on the file system of another machine that the checkout may be copied to.
func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..":
	case strings.ContainsAny(name, "/\x00"):
	case isGitDirectory(name):
	default:
		return nil
	}
	return fmt.Errorf("the repository holds the name %q, which is not safe to check out", printable(name))
}

// isGitDirectory tells whether a file system may take name for ".git": without regard to case, as NTFS does with short
// names, dots and blanks at the end, backslashes and streams, and as HFS+ does with invisible characters.
func isGitDirectory(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		visible := strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, part)
		for _, form := range []string{part, visible} {
			form, _, _ = strings.Cut(form, ":")
			form = strings.TrimRight(form, ". ")
			if strings.EqualFold(form, ".git") || strings.EqualFold(form, "git~1") {
				return true
			}
		}
	}
	return false
}

// safeReference tells whether the full name of a reference can stand in the files of git.
func safeReference(name string) bool {
	if !strings.HasPrefix(name, "refs/") || len(name) > 1024 || !utf8.ValidString(name) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.Contains(name, "..") && !strings.Contains(name, "@{") &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(" ~^:?*[\\", r) })
}
