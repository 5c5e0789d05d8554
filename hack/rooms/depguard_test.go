package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is a list of the depguard section of .golangci.yml.
type rule struct {
	Files    []string `json:"files"`
	ListMode string   `json:"list-mode"`
	Allow    []string `json:"allow"`
	Deny     []struct {
		Pkg string `json:"pkg"`
	} `json:"deny"`
}

// TestDepguardAgrees holds the depguard rules against the table, for every pair of folders and both kinds of file.
func TestDepguardAgrees(t *testing.T) {
	rules := readRules(t, "../../.golangci.yml")
	for _, from := range exampleFolders() {
		for _, imported := range exampleImports() {
			for file, inTest := range map[string]bool{"x.go": false, "x_test.go": true} {
				if under(from, "cmd") && imported == module+"/"+from || module+"/"+from == imported {
					continue
				}
				table := refuse(from, imported, inTest) == ""
				var deniedBy []string
				for name, r := range rules {
					if r.covers(from+"/"+file) && !r.allows(imported) {
						deniedBy = append(deniedBy, name)
					}
				}
				if depguard := len(deniedBy) == 0; depguard != table {
					t.Errorf("%s/%s imports %s: table allows %t, depguard allows %t (denied by %v)", from, file, imported, table, depguard, deniedBy)
				}
			}
		}
	}
}

// exampleFolders names a folder of every room, and some that have rules of their own.
func exampleFolders() []string {
	folders := []string{
		"scheduler/framework", "scheduler/plugins/one", "scheduler/plugins/two", "controllers/core/inner",
		"cmd/krt", "cmd/manager", "cmd/runtime-server", "runtimed/server", "test/envtest/cluster", "hack/demo",
	}
	for _, r := range rooms {
		folders = append(folders, r.path)
	}
	return folders
}

func exampleImports() []string {
	imports := []string{"context", "k8s.io/api/core/v1", "sigs.k8s.io/controller-runtime", "github.com/go-logr/logr"}
	for _, f := range exampleFolders() {
		imports = append(imports, module+"/"+f)
	}
	return imports
}

func readRules(t *testing.T, path string) map[string]rule {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]rule `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	rules := file.Linters.Settings.Depguard.Rules
	if len(rules) == 0 {
		t.Fatalf("%s has no depguard rules", path)
	}
	return rules
}

// covers tells whether r looks at the file, whose path is from the root of the module.
func (r rule) covers(file string) bool {
	listed := len(r.Files) == 0
	for _, pattern := range r.Files {
		pattern, negated := strings.CutPrefix(pattern, "!")
		matched := compiled(pattern).MatchString("/" + file)
		switch {
		case matched && negated:
			return false
		case matched || negated && len(r.Files) == 1:
			listed = true
		}
	}
	return listed
}

var expressions = map[string]*regexp.Regexp{}

// compiled returns glob(pattern), made once.
func compiled(pattern string) *regexp.Regexp {
	if expressions[pattern] == nil {
		expressions[pattern] = glob(pattern)
	}
	return expressions[pattern]
}

// glob translates what our patterns use: $all, $test, **, * and {a,b}. The root of the module stands for "/".
func glob(pattern string) *regexp.Regexp {
	pattern = strings.NewReplacer("$all", "/**.go", "$test", "/**_test.go", "${config-path}", "").Replace(pattern)
	expression := strings.NewReplacer(
		".", `\.`, "**", ".*", "*", "[^/]*", "{", "(?:", "}", ")", ",", "|",
	).Replace(pattern)
	return regexp.MustCompile("^" + expression + "$")
}

// allows does what depguard does: the longest matching prefix of the allow list wins over a shorter one of the deny list.
func (r rule) allows(imported string) bool {
	denied := 0
	for _, d := range r.Deny {
		denied = max(denied, match(imported, d.Pkg))
	}
	if r.ListMode != "lax" {
		return denied == 0
	}
	allowed := 0
	for _, a := range r.Allow {
		allowed = max(allowed, match(imported, a))
	}
	return denied == 0 || allowed > denied
}

// match returns the length of prefix if it is one of imported, else 0. A closing "$" asks for equality.
func match(imported, prefix string) int {
	if exact, ok := strings.CutSuffix(prefix, "$"); ok {
		if imported == exact {
			return len(exact)
		}
		return 0
	}
	if strings.HasPrefix(imported, prefix) {
		return len(prefix)
	}
	return 0
}
