package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/artifacts/stores"
	"kruntimes.io/kruntimes/runtimed"
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
		"two stores":      {[]string{"--artifact-directory=/a", "--artifact-s3-bucket=b"}, environment, "exclude each other"},
		"no bucket":       {[]string{"--artifact-s3-prefix=p"}, environment, "need --artifact-s3-bucket"},
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

func TestParseArtifacts(t *testing.T) {
	cases := map[string]struct {
		args []string
		want runtimed.ArtifactOptions
	}{
		"no store": {nil, runtimed.ArtifactOptions{}},
		"a directory": {
			[]string{"--artifact-directory=/artifacts", "--artifact-max-bytes=7", "--artifact-max-count=3", "--artifact-sweep-interval=1m",
				"--artifact-sweep-grace=2m", "--artifact-patience=3m", "--artifact-recheck=4m"},
			runtimed.ArtifactOptions{
				Store: &stores.Config{Directory: "/artifacts"}, MaxBytes: 7, MaxCount: 3, SweepInterval: time.Minute,
				SweepGrace: 2 * time.Minute, Patience: 3 * time.Minute, Recheck: 4 * time.Minute,
			},
		},
		"a bucket": {
			[]string{"--artifact-s3-bucket=b", "--artifact-s3-prefix=p", "--artifact-s3-region=r", "--artifact-s3-endpoint=http://e",
				"--artifact-s3-force-path-style", "--artifact-credentials=/c"},
			runtimed.ArtifactOptions{Store: &stores.Config{S3: &stores.Bucket{
				Bucket: "b", Prefix: "p", Region: "r", Endpoint: "http://e", ForcePathStyle: true, CredentialsDir: "/c"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts, _, err := parse(tc.args, environment)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, opts.Artifacts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestArtifactCommandErrors(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"nothing":            {nil, "want artifact cat --ref=REF"},
		"another word":       {[]string{"dog"}, "want artifact cat --ref=REF"},
		"no address":         {[]string{"cat"}, "reading --ref"},
		"no JSON":            {[]string{"cat", "--ref=x"}, "reading --ref"},
		"an argument":        {[]string{"cat", "--ref={}", "x"}, `unexpected argument "x"`},
		"no state directory": {[]string{"cat", "--ref={}", "--state=/no/such"}, "has no artifactStore"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := artifactCommand(t.Context(), tc.args, &out, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) || out.Len() > 0 {
				t.Errorf("want %q, got %v, and %q on standard output", tc.want, err, out.String())
			}
		})
	}
}
