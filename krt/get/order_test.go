package get

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"kruntimes.io/kruntimes/krt/cli"
)

func TestOrder(t *testing.T) {
	object := func(name string, fields map[string]any) unstructured.Unstructured {
		fields["name"] = name
		return unstructured.Unstructured{Object: map[string]any{"o": fields}}
	}
	cases := map[string]struct {
		expression string
		objects    []unstructured.Unstructured
		want       []string
	}{
		"numbers as numbers, what lacks it first": {expression: ".o.n", want: []string{"c", "b", "a"}, objects: []unstructured.Unstructured{
			object("a", map[string]any{"n": int64(10)}), object("b", map[string]any{"n": int64(9)}), object("c", map[string]any{})}},
		"texts, with braces": {expression: "{.o.t}", want: []string{"c", "b", "a"}, objects: []unstructured.Unstructured{
			object("a", map[string]any{"t": "2026-01-02T00:00:00Z"}), object("b", map[string]any{"t": "2026-01-01T00:00:00Z"}), object("c", map[string]any{})}},
		"equals stay as they are": {expression: "o.n", want: []string{"b", "a"}, objects: []unstructured.Unstructured{
			object("b", map[string]any{"n": int64(1)}), object("a", map[string]any{"n": int64(1)})}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := newOrder(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortStableFunc(tc.objects, o.compare)
			var got []string
			for _, u := range tc.objects {
				name, _, _ := unstructured.NestedString(u.Object, "o", "name")
				got = append(got, name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// full is an output that takes nothing more.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// What could not be written is an error, and no watch goes on without a reader.
func TestOutputThatCannotBeWritten(t *testing.T) {
	cases := map[string][]string{
		"a table":            {"runs"},
		"two tables":         {"runs,runtimes"},
		"objects":            {"runs", "-o", "yaml"},
		"one object":         {"run", "failed", "-o", "json"},
		"a watch":            {"runs", "-w"},
		"a watch of objects": {"runs", "-w", "-o", "name"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(objects()...).Build()
			f := &cli.Factory{IO: genericiooptions.IOStreams{Out: full{}, ErrOut: &bytes.Buffer{}}, Now: func() time.Time { return noon }, Name: "krt",
				Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
			cmd := NewCmd(f, nil)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(args)
			if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, errFull) || err.Error() != "writing the output: no space left on device" {
				t.Errorf("error %v, want %v", err, errFull)
			}
		})
	}
}
