package runtimeserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

func TestMergeEnvironment(t *testing.T) {
	cases := map[string]struct {
		inherited []string
		added     [][2]string
		want      []string
	}{
		"nothing":                         {},
		"only inherited":                  {inherited: []string{"A=1", "B="}, want: []string{"A=1", "B="}},
		"only added":                      {added: [][2]string{{"A", "1"}}, want: []string{"A=1"}},
		"added wins":                      {inherited: []string{"A=1", "B=2"}, added: [][2]string{{"A", "3"}}, want: []string{"A=3", "B=2"}},
		"the last of several wins":        {added: [][2]string{{"A", "1"}, {"B", "2"}, {"A", "3"}}, want: []string{"A=3", "B=2"}},
		"an empty value is a value":       {inherited: []string{"A=1"}, added: [][2]string{{"A", ""}}, want: []string{"A="}},
		"values may hold anything":        {added: [][2]string{{"A", "x=y\nz #"}}, want: []string{"A=x=y\nz #"}},
		"an inherited entry without =":    {inherited: []string{"garbage", "A=1"}, want: []string{"A=1"}},
		"an inherited value that holds =": {inherited: []string{"A=b=c"}, want: []string{"A=b=c"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var added []*runtimev1.EnvVar
			for _, pair := range c.added {
				added = append(added, &runtimev1.EnvVar{Name: pair[0], Value: pair[1]})
			}
			var got []string
			for _, e := range mergeEnvironment(c.inherited, added) {
				got = append(got, e.GetName()+"="+e.GetValue())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextual(t *testing.T) {
	kept, dropped := textual([]string{"A=1", "B=\xff", "C\xff=1", "\xff", "D=ü"})
	if diff := cmp.Diff([]string{"A=1", "D=ü"}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"B", "C\uFFFD", "\uFFFD"}, dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}
