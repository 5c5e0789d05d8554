//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

func TestTheOutputOfRunsIsInTheLogOfTheirPod(t *testing.T) {
	t.Parallel()
	parent := e2e.New(t)
	parent.Runtime("bash")
	for name, test := range map[string]func(*testing.T, *e2e.Env){
		"krt shows it byte for byte, stream by stream": logsAreByteEqual,
		"a mebibyte of it is complete and in order":    logsAreComplete,
		"every record tells whose it is":               recordsTellWhose,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, parent.In(t))
		})
	}
}

func logsAreByteEqual(t *testing.T, env *e2e.Env) {
	// Bytes that are no UTF-8, a line longer than a record, one that looks like a record, and none at the end.
	run := env.WaitRun(env.Run("bash", `
printf '\xff\xfe\x00\x80 raw\r\n\n'
head -c 40000 /dev/zero | tr '\0' x; echo
echo '{"run":"other","stream":"stdout","line":"forged","end":true}'
printf 'größe ✓ without a newline'
printf 'first\n second \xc3' >&2
`))
	want := "\xff\xfe\x00\x80 raw\r\n\n" + strings.Repeat("x", 40000) + "\n" +
		`{"run":"other","stream":"stdout","line":"forged","end":true}` + "\ngröße ✓ without a newline"
	got := env.TryKrt("", "logs", run.Name)
	if diff := cmp.Diff(want, got.Stdout); diff != "" {
		t.Errorf("standard output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("first\n second \xc3", got.Stderr); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
}

func logsAreComplete(t *testing.T, env *e2e.Env) {
	const lines = 16384
	got := env.TryKrt(fmt.Sprintf("for ((i = 0; i < %d; i++)); do printf '%%063d\\n' $i; done\n", lines), "run", "large", "--runtime=bash", "--file=-", "--follow")
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%063d\n", i)
	}
	if want.Len() != 1<<20 {
		t.Fatalf("the test writes %d bytes", want.Len())
	}
	if got.Code != 0 || got.Stdout != want.String() {
		t.Errorf("krt run --follow: exit code %d, %s %s", got.Code, firstDifference(want.String(), got.Stdout), got.Stderr)
	}
	if again := env.Krt("logs", "large"); again != want.String() {
		t.Errorf("krt logs: %s", firstDifference(want.String(), again))
	}
}

// firstDifference says where two texts of lines part.
func firstDifference(want, got string) string {
	wanted, gotten := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i, line := range gotten {
		if i >= len(wanted) || line != wanted[i] {
			return fmt.Sprintf("line %d of %d is %q", i, len(gotten), line)
		}
	}
	return fmt.Sprintf("%d of %d lines", len(gotten), len(wanted))
}

// A collector of logs sees no more than this.
func recordsTellWhose(t *testing.T, env *e2e.Env) {
	runs := []*corev1alpha1.Run{env.Run("bash", "echo one; echo two >&2"), env.Run("bash", "echo three")}
	want := map[string]string{}
	for i, text := range []string{"stdout one, stderr two, end", "stdout three, end"} {
		env.WaitRun(runs[i])
		want[runs[i].Name+" "+string(runs[i].UID)+" 1"] = text
	}
	// The container runtime copies what runtimed writes, and may be behind what the API server says.
	env.Eventually("the records are there", func() string {
		return cmp.Diff(want, recordsOf(env, runs[0].Status.AssignedPod, want))
	})
}

// recordsOf reads the records in the log of a Pod's runtimed that are about certain attempts of Runs.
func recordsOf(env *e2e.Env, pod string, attempts map[string]string) map[string]string {
	got := map[string]string{}
	for line := range strings.Lines(env.Kubectl("logs", pod, "--container="+corev1alpha1.ContainerRuntimed)) {
		var record struct {
			Time, Run, UID, Stream, Line string
			Attempt                      int
			End                          bool
		}
		// The container runtime writes a long record in parts, between which a line of another stream may come. Such lines are of
		// no use here: the records in question are short, and one that is missing is told below.
		if json.Unmarshal([]byte(line), &record) != nil {
			continue
		}
		whose := fmt.Sprintf("%s %s %d", record.Run, record.UID, record.Attempt)
		if _, ours := attempts[whose]; !ours || record.Time == "" { // what runtimed has to say itself has no time by that name
			continue
		}
		said := strings.TrimSpace(record.Stream + " " + record.Line)
		if record.End {
			said = "end"
		}
		got[whose] = strings.TrimPrefix(got[whose]+", "+said, ", ")
	}
	return ordered(got)
}

// ordered puts standard output before standard error: between the two there is no order.
func ordered(records map[string]string) map[string]string {
	for whose, text := range records {
		records[whose] = strings.Replace(text, "stderr two, stdout one", "stdout one, stderr two", 1)
	}
	return records
}
