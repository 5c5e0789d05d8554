package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	cases := map[string]struct {
		stat string
		want time.Duration
		fail bool
	}{
		"all four times":                {stat: "7 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 4000 20 0 1", want: 41230 * time.Millisecond},
		"a name that looks like fields": {stat: "7 (a) b) 1 2) S 1 7 7 0 -1 4194560 1 2 3 4 1 1 1 1 20 0 1", want: 40 * time.Millisecond},
		"too short":                     {stat: "7 (sh) S 1 7", fail: true},
		"no number":                     {stat: "7 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 x 20 3 4000", fail: true},
		"nothing":                       {fail: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tc.stat)
			if got != tc.want || (err != nil) != tc.fail {
				t.Errorf("want %s, got %s, %v", tc.want, got, err)
			}
		})
	}
}

func TestCPUPerRun(t *testing.T) {
	a1, a2, b := Process{"a", 1}, Process{"a", 2}, Process{"b", 3}
	gone, idle := Process{"a", 4}, Process{"idle", 5}
	before := times{a1: time.Second, gone: time.Hour, b: 0, idle: time.Second}
	floor := times{a1: time.Second, b: 3 * time.Second, idle: time.Second}.since(before)
	product := times{a1: 3 * time.Second, a2: time.Second, b: time.Second, idle: time.Second}.since(before)
	want := []CPU{
		{Process: "a", Load: "l", ProductMillis: 300},
		{Process: "b", Load: "l", FloorMillis: 300, ProductMillis: 100},
	}
	lines := compareCPU("l", 10, floor, product)
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var out strings.Builder
	if err := (Report{CPU: append(lines, CPU{Process: "b", Load: "m", ProductMillis: 7})}).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	rows := ""
	_, table, _ := strings.Cut(out.String(), "CPU PER RUN (ms)")
	for line := range strings.Lines(table) {
		rows += strings.Join(strings.Fields(line), " ") + "\n"
	}
	wantRows := "l: FLOOR RUNS m: FLOOR RUNS\na 0.00 300.00 - -\nb 300.00 100.00 0.00 7.00\nall 300.00 400.00 0.00 7.00\n"
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
