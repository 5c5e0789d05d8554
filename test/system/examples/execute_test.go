package examples

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/test/envtest/examples"
)

// TestExecution executes what stands in examples, samples and documents. Every Run and WorkflowRun has to end as it is meant to,
// and of every definition the cluster has to say whether it can be used. The commands of the documents, in blocks fenced as
// sh, have to succeed afterwards.
func TestExecution(t *testing.T) {
	_, err := exec.LookPath("python3")
	hasPython := err == nil
	for name, tc := range map[string]struct {
		manifests []string
		documents string
		python    bool
	}{
		"examples": {manifests: []string{
			"examples/runtimes.yaml", "examples/artifacts.yaml", "examples/reuse", "examples/ci.yaml", "examples/failing.yaml", "examples/runs",
		}},
		"samples": {manifests: []string{"config/samples"}, python: true},
		"documents": {
			manifests: []string{"examples/runtimes.yaml", "examples/artifacts.yaml", "docs/workflows"},
			documents: "docs/workflows/*.md",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.python && !hasPython {
				t.Skip("this machine has no python3")
			}
			manifests, err := examples.Collect(root, tc.manifests...)
			if err != nil {
				t.Fatal(err)
			}
			manifests = slices.DeleteFunc(manifests, func(m examples.Manifest) bool {
				return is(m, "Runtime") && m.Object.GetName() == "python" && !hasPython
			})
			namespace, kubeconfigOf := newNamespace(t)
			execute(t, namespace, manifests)
			if tc.documents != "" {
				runCommands(t, kubeconfigOf, tc.documents)
			}
		})
	}
}

// is tells whether the object is of one of the kinds.
func is(m examples.Manifest, kinds ...string) bool { return slices.Contains(kinds, m.Object.GetKind()) }

// execute creates all objects, those that are executed last, and checks what becomes of each.
func execute(t *testing.T, namespace string, manifests []examples.Manifest) {
	t.Helper()
	executed := 0
	for _, last := range []bool{false, true} {
		for _, m := range manifests {
			if is(m, "Run", "WorkflowRun") != last {
				continue
			}
			m.Object.SetNamespace(namespace)
			if err := admin.Create(t.Context(), m.Object, client.FieldValidation("Strict")); err != nil {
				t.Fatalf("creating %s %s of %s: %v", m.Object.GetKind(), m.Object.GetName(), m.Source, err)
			}
			if last {
				executed++
			}
		}
		for _, m := range manifests {
			if is(m, "Run", "WorkflowRun") == last {
				t.Run(m.Source+"/"+m.Object.GetKind()+"/"+m.Object.GetName(), func(t *testing.T) { settle(t, m) })
			}
		}
	}
	if executed == 0 {
		t.Error("nothing was executed")
	}
}

// settle waits until an object has come to what it is meant to be.
func settle(t *testing.T, m examples.Manifest) {
	t.Helper()
	switch {
	case is(m, "Run", "WorkflowRun"):
		phase, message := waitFor(t, m, func(o *unstructured.Unstructured) (string, string) {
			phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			message, _, _ := unstructured.NestedString(o.Object, "status", "message")
			if phase != "Succeeded" && phase != "Failed" && phase != "Cancelled" && phase != "Timeout" {
				return "", ""
			}
			return phase, message
		})
		compare(t, m, phase, "Succeeded", "Failed", message)
	case is(m, "Runtime"):
		ready, message := waitFor(t, m, func(o *unstructured.Unstructured) (string, string) { return condition(o, "Available", "True") })
		compare(t, m, ready, "True", "False", message)
	case is(m, "Workflow", "Action"):
		ready, message := waitFor(t, m, func(o *unstructured.Unstructured) (string, string) { return condition(o, "Ready", "") })
		compare(t, m, ready, "True", "False", message)
	}
}

// compare checks what became of an object.
func compare(t *testing.T, m examples.Manifest, got, good, bad, message string) {
	t.Helper()
	want := good
	if m.Fails != "" {
		want = bad
	}
	if got != want || !strings.Contains(message, m.Fails) {
		t.Errorf("it is %s with message %q, want %s with %q", got, message, want, m.Fails)
	}
}

// condition returns status and message of a condition, or nothing unless it is there and about the present spec. Where a status
// is wanted, it is waited for.
func condition(o *unstructured.Unstructured, kind, wanted string) (status, message string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if ok && c["type"] == kind && (wanted == "" || c["status"] == wanted) {
			status, _ = c["status"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, message
}

// waitFor reads an object until look says something about it, and returns that. A definition is judged again when what it calls
// appears, so that one that cannot be used is looked at until it can, or until it is clear that it is meant to be so.
func waitFor(t *testing.T, m examples.Manifest, look func(*unstructured.Unstructured) (string, string)) (state, message string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(m.Object), m.Object); err != nil {
			return false, err
		}
		state, message = look(m.Object)
		isJudged := !is(m, "Workflow", "Action") || (state == "True") == (m.Fails == "")
		return state != "" && isJudged, nil
	})
	if err != nil {
		t.Fatalf("it is %q with message %q: %v", state, message, err)
	}
	return state, message
}

// runCommands executes the blocks of the documents that are fenced as sh, each as a script that ends where something fails.
func runCommands(t *testing.T, kubeconfigOf, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	executed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range examples.Blocks(string(text), "sh") {
			executed++
			t.Run(fmt.Sprintf("%s/commands %d", filepath.Base(file), i+1), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, "sh", "-euc", block)
				cmd.Dir = root
				cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfigOf, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s\n%v\n%s", block, err, out)
				}
			})
		}
	}
	if executed == 0 {
		t.Errorf("%s hold no commands", pattern)
	}
}
