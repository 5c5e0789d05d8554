package runtimed

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

func TestOutputIsByteEqual(t *testing.T) {
	n := startNode(t)
	long := "0123456789abcde"
	cases := map[string]struct{ script, stdout, stderr string }{
		"two streams":       {script: "echo a; echo b >&2; echo c", stdout: "a\nc\n", stderr: "b\n"},
		"no final newline":  {script: "printf 'a\\nb'", stdout: "a\nb"},
		"carriage returns":  {script: "printf '10%%\\r20%%\\r\\n\\r'", stdout: "10%\r20%\r\n\r"},
		"nothing":           {script: "true"},
		"a line of 200 KiB": {script: "i=0; while [ $i -lt 20480 ]; do printf '0123456789'; i=$((i+1)); done; echo", stdout: strings.Repeat("0123456789", 20480) + "\n"},
		"100,000 lines":     {script: "yes " + long + " | head -n 100000", stdout: strings.Repeat(long+"\n", 100000)},
		"binary":            {script: `printf '\377\376\000a\n\200'`, stdout: "\xff\xfe\x00a\n\x80"},
		"escapes":           {script: `printf '\033[1m"<&>\\\302\205\n'`, stdout: "\x1b[1m\"<&>\\\u0085\n"},
		"unicode":           {script: "printf 'żółć 🦊\\n'", stdout: "żółć 🦊\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := awaitEnd(t, n.submit(t, strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(name)), script(tc.script)))
			records := n.records(t, run)
			if diff := cmp.Diff(tc.stdout, text(t, records, logrecord.Stdout)); diff != "" {
				t.Errorf("stdout, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.stderr, text(t, records, logrecord.Stderr)); diff != "" {
				t.Errorf("stderr, -want +got:\n%s", diff)
			}
			ends := 0
			for _, r := range records {
				if r.End {
					ends++
				}
			}
			if ends != 1 || !records[len(records)-1].End {
				t.Errorf("want one end record at the end, got %d", ends)
			}
		})
	}
}
