package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// messages returns the messages of what was logged.
func messages(t *testing.T, log *bytes.Buffer) []string {
	t.Helper()
	var all []string
	for decoder := json.NewDecoder(log); decoder.More(); {
		var line struct{ Msg string }
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line.Msg)
	}
	return all
}

func TestVerbosity(t *testing.T) {
	cases := map[string]struct {
		args []string
		want []string
	}{
		"without the flag":  {nil, []string{"error", "info"}},
		"0":                 {[]string{"--v=0"}, []string{"error", "info"}},
		"1 shows decisions": {[]string{"--v=1"}, []string{"error", "info", "decision"}},
		"2 shows details":   {[]string{"-v", "2"}, []string{"error", "info", "decision", "detail"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var v Verbosity
			flags := flag.NewFlagSet("test", flag.ContinueOnError)
			v.AddFlag(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			log := New(&out, v)
			log.Error(errors.New("cause"), "error")
			log.Info("info")
			log.V(1).Info("decision")
			log.V(2).Info("detail")
			if diff := cmp.Diff(tc.want, messages(t, &out)); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLevelsThatAreNone(t *testing.T) {
	for _, text := range []string{"-1", "128", "much", ""} {
		var v Verbosity
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		v.AddFlag(flags)
		if err := flags.Parse([]string{"--v=" + text}); err == nil {
			t.Errorf("%q is taken as level %d", text, v)
		}
	}
}

// TestNothingIsLeftOut logs the same message again and again, which a sampling logger would thin out.
func TestNothingIsLeftOut(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, 0)
	for range 1000 {
		log.Info("again")
	}
	if got := len(messages(t, &out)); got != 1000 {
		t.Errorf("%d of 1000 messages were logged", got)
	}
}
