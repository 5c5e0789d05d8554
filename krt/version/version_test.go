package version

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/krt/cli"
)

// apiServer answers the few questions of the command.
func apiServer(t *testing.T, kubernetesVersion string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body)) // a client that has gone away fails the test by itself
		})
	}
	answer("/version", `{"gitVersion":"`+kubernetesVersion+`"}`)
	answer("/apis/apps/v1/deployments", `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"kruntimes-scheduler","labels":{"app.kubernetes.io/component":"scheduler"}},
		"spec":{"template":{"spec":{"containers":[{"name":"scheduler","image":"controlplane:v1"}]}}}}]}`)
	answer("/api/v1/pods", `{"kind":"PodList","apiVersion":"v1","items":[
		{"spec":{"containers":[{"name":"runtime","image":"bash"},{"name":"runtimed","image":"node:v1"}]}},
		{"spec":{"containers":[{"name":"runtime","image":"bash"},{"name":"runtimed","image":"node:v0"}]}},
		{"spec":{"containers":[{"name":"runtime","image":"bash"},{"name":"runtimed","image":"node:v1"}]}}]}`)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// versions runs the command line against a configuration and returns what it printed.
func versions(t *testing.T, config func() (*rest.Config, error), args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	f := &cli.Factory{IO: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}, Name: "krt", RESTConfig: config}
	f.Clientset = func() (kubernetes.Interface, error) {
		c, err := config()
		if err != nil {
			return nil, err
		}
		return kubernetes.NewForConfig(c)
	}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"-o", "json"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func at(url string) func() (*rest.Config, error) {
	return func() (*rest.Config, error) { return &rest.Config{Host: url}, nil }
}

func TestVersions(t *testing.T) {
	closed := apiServer(t, "v1.37.2")
	closed.Close()
	components := []component{{Name: "runtimed", Image: "node:v0", Pods: 1}, {Name: "runtimed", Image: "node:v1", Pods: 2}, {Name: "scheduler", Image: "controlplane:v1"}}
	cases := map[string]struct {
		config   func() (*rest.Config, error)
		args     []string
		want     report
		wantErr  string
		wantCode int
	}{
		"a cluster":              {config: at(apiServer(t, "v1.37.2").URL), want: report{Kubernetes: "v1.37.2", Components: components}},
		"a cluster too old":      {config: at(apiServer(t, "v1.31.4+k3s1").URL), want: report{Kubernetes: "v1.31.4+k3s1", Components: components, Warnings: []string{"Kubernetes v1.31.4+k3s1 is older than 1.32.0, the oldest that kruntimes supports"}}},
		"a cluster not asked":    {config: at(apiServer(t, "v1.37.2").URL), args: []string{"--client"}},
		"a cluster that is away": {config: at(closed.URL), wantCode: cli.ExitUnreachable},
		"no cluster":             {config: func() (*rest.Config, error) { return nil, &cli.NoClusterError{Reason: "no cluster is configured"} }, wantErr: "krt: no cluster is configured\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := versions(t, tc.config, tc.args...)
			if code := cli.ExitCode(err); code != tc.wantCode || errOut != tc.wantErr {
				t.Errorf("exit code %d (%v) and stderr %q, want %d and %q", code, err, errOut, tc.wantCode, tc.wantErr)
			}
			var got report
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if got.Client.Version == "" || got.Client.Go == "" {
				t.Errorf("the client's own version is missing: %+v", got.Client)
			}
			got.Client = client{}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForms(t *testing.T) {
	cases := map[string]struct {
		form     string
		want     string
		wantCode int
	}{
		"a table": {want: "krt          v1 (go, linux)\nKubernetes   v1.37.2\nruntimed     node:v1 (2 Pods)\n"},
		"yaml":    {form: "yaml", want: "client:\n  go: go\n  platform: linux\n  version: v1\ncomponents:\n- image: node:v1\n  name: runtimed\n  pods: 2\nkubernetes: v1.37.2\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := &options{output: tc.form, factory: &cli.Factory{IO: genericiooptions.IOStreams{Out: &out, ErrOut: &out}}}
			r := report{Client: client{Version: "v1", Go: "go", Platform: "linux"}, Kubernetes: "v1.37.2", Components: []component{{Name: "runtimed", Image: "node:v1", Pods: 2}}}
			if err := write(o, r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
