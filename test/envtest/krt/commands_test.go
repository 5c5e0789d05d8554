package krt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

func TestRunCreatesWhatItWasAskedFor(t *testing.T) {
	namespace := shared.Namespace(t)
	config := kubeconfig(t, shared.Config(), namespace)
	got := run(t, config, "echo $1\n", "run", "build", "-r", "bash", "-f", "-", "-e", "A=1", "--timeout", "90s", "--ttl", "1h", "--request", "runs=2", "--", "arg")
	if got.code != cli.ExitOK || got.out != "build\n" || !strings.Contains(got.errOut, `there is no Runtime "bash"`) {
		t.Errorf("got %+v", got)
	}
	r := onlyRun(t, namespace)
	text, err := json.Marshal(r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runtime":"bash","source":{"inline":"echo $1\n"},"mode":{"task":{"args":["arg"]}},"env":[{"name":"A","value":"1"}],` +
		`"resources":{"requests":{"runs":"2"}},"timeout":"1m30s","ttlSecondsAfterFinished":3600}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if got := run(t, config, "", "run", "build", "-r", "bash", "--", "true"); got.code != cli.ExitFailed || !strings.Contains(got.errOut, "already\nhint: choose another NAME") {
		t.Errorf("a second Run of the name: %+v", got)
	}
}

func TestRunMakesUpAName(t *testing.T) {
	namespace := shared.Namespace(t)
	got := run(t, kubeconfig(t, shared.Config(), namespace), "", "run", "-r", "bash", "-o", "name", "--", "/bin/echo", "hi")
	if got.code != cli.ExitOK || !strings.HasPrefix(got.out, "run.kruntimes.io/echo-") {
		t.Errorf("got %+v", got)
	}
}

func TestADryRunLeavesNothing(t *testing.T) {
	namespace := shared.Namespace(t)
	config := kubeconfig(t, shared.Config(), namespace)
	got := run(t, config, "", "run", "build", "-r", "bash", "--dry-run=server", "-o", "jsonpath={.metadata.uid} {.spec.runtime}", "--", "true")
	if got.code != cli.ExitOK || !strings.HasSuffix(got.out, " bash") || len(got.out) < 36 {
		t.Errorf("got %+v", got)
	}
	args := []string{"run", "build", "-r", "bash", "--dry-run=server"}
	for i := range 300 {
		args = append(args, "-e", fmt.Sprintf("V%d=x", i))
	}
	if got := run(t, config, "", append(args, "--", "true")...); got.code != cli.ExitFailed || !strings.Contains(got.errOut, "spec.env: Too many: 300: must have at most 256 items") {
		t.Errorf("what the API server refuses: %+v", got)
	}
	var list corev1alpha1.RunList
	if err := shared.Admin().List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) != 0 {
		t.Errorf("%d Runs are left, error %v", len(list.Items), err)
	}
}

// What "krt run --dry-run client" prints must be a manifest that the API server takes as it is.
func TestAClientDryRunIsAManifest(t *testing.T) {
	namespace := shared.Namespace(t)
	got := run(t, kubeconfig(t, shared.Config(), namespace), "", "run", "build", "-r", "bash", "--dry-run=client", "-o", "json", "--", "true")
	object := &corev1alpha1.Run{}
	decoder := json.NewDecoder(strings.NewReader(got.out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(object); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	shared.Create(t, object)
}

func TestGetDescribeCancelAndWait(t *testing.T) {
	namespace := shared.Namespace(t)
	config := kubeconfig(t, shared.Config(), namespace)
	k := newKubelet(t, "get")
	pod := k.pod(t, namespace, "pod")
	for _, name := range []string{"one", "two"} {
		if got := run(t, config, "", "run", name, "-r", "bash", "--", "true"); got.code != cli.ExitOK {
			t.Fatalf("creating %s: %+v", name, got)
		}
	}
	one := &corev1alpha1.Run{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "one"}, one); err != nil {
		t.Fatal(err)
	}
	assign(t, one, pod)
	finish(t, one, corev1alpha1.RunFailed, corev1alpha1.RunReasonScriptFailed, 3)

	cases := []struct {
		args []string
		code int
		want string
	}{
		{args: []string{"get", "runs", "-o", "name"}, want: "run.kruntimes.io/one\nrun.kruntimes.io/two\n"},
		{args: []string{"get", "runs", "--field-selector", "status.phase=Failed", "--no-headers"}, want: "one bash Failed ScriptFailed 3 "},
		{args: []string{"get", "run", "two", "-o", "jsonpath={.status.phase}"}, want: "Pending"},
		{args: []string{"describe", "run", "one"}, want: "Phase: Failed (ScriptFailed)"},
		{args: []string{"describe", "run", "two"}, want: "Runtime: bash (does not exist)"},
		{args: []string{"cancel", "--all", "--dry-run=server"}, want: "run.kruntimes.io/two would be cancelled (server dry run)\n"},
		{args: []string{"get", "runs", "--no-headers", "--sort-by", ".status.phase"}, want: "one bash Failed ScriptFailed 3 "},
		{args: []string{"cancel", "one", "two"}, want: "run.kruntimes.io/two cancel requested\n"},
		{args: []string{"get", "run", "two", "-o", "jsonpath={.spec.cancelRequested}"}, want: "true"},
		{args: []string{"wait", "one"}, want: "run.kruntimes.io/one Failed\n"},
		{args: []string{"wait", "one", "--for", "succeeded"}, code: cli.ExitFailed},
		{args: []string{"wait", "two", "--timeout", "100ms"}, code: cli.ExitFailed},
		{args: []string{"get", "run", "three"}, code: cli.ExitFailed},
		{args: []string{"get", "runtimes"}},
		{args: []string{"version"}, want: "Kubernetes v1."},
		{args: []string{"__complete", "logs", "t"}, want: "two\tPending\n"},
	}
	for _, tc := range cases {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			got := run(t, config, "", tc.args...)
			plain := got.out
			if !strings.Contains(tc.want, "\n") && !strings.Contains(tc.want, "\t") {
				plain = strings.Join(strings.FieldsFunc(got.out, func(r rune) bool { return r == ' ' || r == '\n' }), " ") + " "
			}
			if got.code != tc.code || !strings.Contains(plain, tc.want) {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, tc.want)
			}
		})
	}
}

func TestGetGoesOnBeyondOnePage(t *testing.T) {
	namespace := shared.Namespace(t)
	const many = 501 // one more than are read at once
	for i := range many {
		shared.Create(t, newRun(namespace, fmt.Sprintf("run-%03d", i)))
	}
	got := run(t, kubeconfig(t, shared.Config(), namespace), "", "get", "runs", "-o", "name")
	names := strings.Fields(got.out)
	if len(names) != many || !slices.Contains(names, "run.kruntimes.io/run-500") {
		t.Errorf("%d Runs, exit code %d, stderr %s", len(names), got.code, got.errOut)
	}
}

func newRun(namespace, name string) *corev1alpha1.Run {
	r := &corev1alpha1.Run{Spec: corev1alpha1.RunSpec{Runtime: "bash", Mode: corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Args: []string{"true"}}}}}
	r.Namespace, r.Name = namespace, name
	return r
}

func TestWhoMayNotIsTold(t *testing.T) {
	namespace := shared.Namespace(t)
	shared.Create(t, newRun(namespace, "build"))
	user := shared.User(t, namespace, "reader-"+namespace, rbacv1.PolicyRule{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs"}, Verbs: []string{"get", "list", "watch"}})
	config := kubeconfig(t, user, namespace)
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"reading":                {args: []string{"get", "runs"}},
		"describing":             {args: []string{"describe", "run", "build"}},
		"creating":               {args: []string{"run", "-r", "bash", "--", "true"}, code: cli.ExitFailed, want: "krt: creating the Run: runs.kruntimes.io is forbidden: "},
		"creating and following": {args: []string{"run", "-r", "bash", "--follow", "--", "true"}, code: cli.ExitFollow, want: "krt: creating the Run: runs.kruntimes.io is forbidden: "},
		"cancelling":             {args: []string{"cancel", "build"}, code: cli.ExitFailed, want: "krt: cancelling Run build: runs.kruntimes.io \"build\" is forbidden: "},
		"reading elsewhere":      {args: []string{"get", "runs", "-A"}, code: cli.ExitFailed, want: "krt: listing Runs: runs.kruntimes.io is forbidden: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := run(t, config, "", tc.args...); got.code != tc.code || !strings.HasPrefix(got.errOut, tc.want) {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, tc.want)
			}
		})
	}
}

func TestWhoIsNotKnownIsTold(t *testing.T) {
	cfg := shared.Config()
	cfg.CertData, cfg.KeyData, cfg.BearerToken = nil, nil, "nonsense"
	got := run(t, kubeconfig(t, cfg, "default"), "", "get", "runs")
	if got.code != cli.ExitFailed || !strings.HasPrefix(got.errOut, "krt: the cluster does not accept the credentials: ") {
		t.Errorf("got %+v", got)
	}
}

func TestAClusterThatIsNotThere(t *testing.T) {
	cfg := shared.Config()
	cfg.Host = "https://127.0.0.1:1"
	config := kubeconfig(t, cfg, "default")
	cases := map[string]struct {
		args []string
		code int
	}{
		"create":            {args: []string{"run", "-r", "bash", "--", "true"}, code: cli.ExitUnreachable},
		"create and follow": {args: []string{"run", "-r", "bash", "--follow", "--", "true"}, code: cli.ExitFollow},
		"get":               {args: []string{"get", "runs"}, code: cli.ExitUnreachable},
		"describe":          {args: []string{"describe", "run", "x"}, code: cli.ExitUnreachable},
		"logs":              {args: []string{"logs", "x"}, code: cli.ExitUnreachable},
		"cancel":            {args: []string{"cancel", "x"}, code: cli.ExitUnreachable},
		"wait":              {args: []string{"wait", "x"}, code: cli.ExitUnreachable},
		"version":           {args: []string{"version"}, code: cli.ExitUnreachable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, config, "", tc.args...)
			if want := "krt: the cluster at https://127.0.0.1:1 could not be reached: "; got.code != tc.code || !strings.HasPrefix(got.errOut, want) {
				t.Errorf("got %+v, want exit code %d and %q", got, tc.code, want)
			}
		})
	}
}

// krt tells a cluster without kruntimes from a Run that does not exist by the shape of the answer.
func TestAKindThatIsNotServedIsRecognised(t *testing.T) {
	clientset, err := kubernetes.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) error {
		return clientset.CoreV1().RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
	}
	if err := ask("/apis/kruntimes.example/v1alpha1/namespaces/default/runs"); !cli.IsNotInstalled(err) {
		t.Errorf("a group that is not served: %v", err)
	}
	if err := ask("/apis/kruntimes.io/v1alpha1/namespaces/default/runs/nope"); err == nil || cli.IsNotInstalled(err) {
		t.Errorf("a Run that does not exist: %v", err)
	}
}
