package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func environment(name string) string {
	return map[string]string{
		"POD_NAME": "p", "POD_NAMESPACE": "ns", "POD_UID": "u",
		"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "6443",
		"HTTPS_PROXY": "http://proxy:1", "SECRET": "secret",
	}[name]
}

func TestParse(t *testing.T) {
	opts, verbosity, err := parse([]string{"--v=1", "--socket=/s", "--scratch=/c", "--state=/t", "--token-dir=/k", "--interpreter=python3",
		"--interpreter=-u", "--health-address=127.0.0.1:1"}, environment)
	if err != nil {
		t.Fatal(err)
	}
	if verbosity != 1 {
		t.Errorf("want verbosity 1, got %d", verbosity)
	}
	got := []string{opts.Pod.Name, opts.Pod.Namespace, opts.Pod.UID, opts.Socket, opts.Scratch, opts.State, opts.HealthAddress,
		strings.Join(opts.Interpreter, " "), opts.Config.Host, opts.Config.BearerTokenFile, opts.Config.CAFile,
		strings.Join(opts.FetchEnv, " ")}
	want := []string{"p", "ns", "u", "/s", "/c", "/t", "127.0.0.1:1", "python3 -u", "https://[::1]:6443", "/k/token", "/k/ca.crt",
		"HTTPS_PROXY=http://proxy:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	cases := map[string]struct {
		args []string
		env  func(string) string
		want string
	}{
		"an unknown flag": {[]string{"--no-such-flag"}, environment, "flag provided but not defined"},
		"an argument":     {[]string{"serve"}, environment, `unexpected argument "serve"`},
		"no API server":   {nil, func(string) string { return "" }, "KUBERNETES_SERVICE_HOST"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, _, err := parse(tc.args, tc.env); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}
