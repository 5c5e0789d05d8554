package cluster

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The script also installs what only the making of images needs, so more stands there.
func TestTheScriptInstallsThePackageOfEachProgram(t *testing.T) {
	script, err := os.ReadFile("../../hack/cluster-packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	installed := map[string]string{}
	for _, pair := range regexp.MustCompile(`([\w./-]+)=([\w.-]+)`).FindAllStringSubmatch(string(script), -1) {
		if _, ours := packageOf[pair[1]]; ours {
			installed[pair[1]] = pair[2]
		}
	}
	if diff := cmp.Diff(packageOf, installed); diff != "" {
		t.Errorf("packages by program (-want +got):\n%s", diff)
	}
}
