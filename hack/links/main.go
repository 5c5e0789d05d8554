// Command links checks that every relative link of the Markdown files resolves: the file is there and so is the heading.
//
// Links to other sites are not looked at, so that the check works offline.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "links:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string) error {
	files, err := documents(root)
	if err != nil {
		return fmt.Errorf("looking for documents: %w", err)
	}
	total, broken := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, l := range links(string(text)) {
			total++
			if why := resolve(file, l.target); why != "" {
				broken++
				fmt.Fprintf(out, "%s:%d: %s: %s\n", file, l.line, l.target, why)
			}
		}
	}
	switch {
	case broken > 0:
		return fmt.Errorf("%d of %d relative links lead nowhere", broken, total)
	case total == 0:
		return fmt.Errorf("found no relative link in %d documents below %s", len(files), root)
	}
	fmt.Fprintf(out, "links: %d relative links in %d documents resolve\n", total, len(files))
	return nil
}

// documents returns the Markdown files below root, hidden folders and built files aside.
func documents(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// resolve says why target, as it stands in file, leads nowhere, or "" when it resolves.
func resolve(file, target string) string {
	path, heading, _ := strings.Cut(target, "#")
	resolved := file
	if path != "" {
		resolved = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
	}
	if _, err := os.Stat(resolved); err != nil {
		return "there is no such file"
	}
	if heading == "" || filepath.Ext(resolved) != ".md" {
		return ""
	}
	text, err := os.ReadFile(resolved)
	if err != nil {
		return err.Error()
	}
	for _, a := range anchors(string(text)) {
		if a == heading {
			return ""
		}
	}
	return "there is no such heading"
}
