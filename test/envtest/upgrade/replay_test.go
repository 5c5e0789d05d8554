package upgrade

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestReplay lets the manager and scheduler of now go on from what each release has left.
func TestReplay(t *testing.T) {
	if *recordTo != "" {
		t.Skip("this run records")
	}
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is nothing to replay: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { replay(t, file) })
	}
}

// finalStates are where the recorded objects come to rest; those that are not here stay where they are.
var finalStates = map[string]string{
	"Run/scheduled": "Succeeded", "Run/running": "Succeeded", "Run/in-workspace": "Succeeded",
	"Run/mid/second": "Succeeded", "Run/mid/third": "Succeeded", "Run/tools/setup/unpack": "Succeeded", "Run/tools/pack": "Succeeded",
	"Run/smoke/curl": "Succeeded", "Run/report/say": "Succeeded",
	"WorkflowRun/steps": "Succeeded", "WorkflowRun/action": "Succeeded", "WorkflowRun/call": "Succeeded",
	"WorkflowRun/call-call-ship": "Succeeded",
	"Run/new-in-workspace":       "Succeeded", "WorkflowRun/new-call": "Succeeded",
}

func replay(t *testing.T, file string) {
	t.Helper()
	startCluster(t)
	objects := load(t, file)
	before := index(objects)
	standing, err := states(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range recordedStates {
		if standing[name] != state {
			t.Errorf("%s was recorded as %q, not %q", name, standing[name], state)
		}
	}
	acceptUpdates(t, objects)

	shared.StartManager(t)
	startScheduler(t)
	p := &player{ends: map[string]corev1alpha1.RunReason{}}
	p.start(t)
	use(t)
	awaitStates(t, finalStates)
	awaitGone(t, "PersistentWorkspace/released", "PersistentWorkspace/steps-mid", "PersistentWorkspace/action-tools")

	after := map[string]*unstructured.Unstructured{}
	for _, kind := range recordedKinds {
		found, err := list(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(after, index(found))
	}
	expectFinishedUntouched(t, before, after)
	expectNothingTwice(t, p, before, after)
	resting := maps.Clone(recordedStates)
	maps.DeleteFunc(resting, func(name, _ string) bool {
		return finalStates[name] != "" || name == "Run/retried" || name == "PersistentWorkspace/released"
	})
	awaitStates(t, resting)
	expectRetry(t, after)
}

// load puts the objects of a release into etcd, and returns them as they are served.
func load(t *testing.T, file string) (objects []unstructured.Unstructured) {
	t.Helper()
	content, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		u := unstructured.Unstructured{}
		if err := json.Unmarshal(lines.Bytes(), &u.Object); err != nil {
			t.Fatal(err)
		}
		shared.Store(t, &u)
		objects = append(objects, u)
	}
	if err := lines.Err(); err != nil || len(objects) == 0 {
		t.Fatalf("there are %d objects: %v", len(objects), err)
	}
	for i := range objects {
		u := &objects[i]
		cluster.Eventually(t, "what is stored to be served", func(ctx context.Context) (bool, error) {
			seen := &unstructured.Unstructured{}
			seen.SetGroupVersionKind(u.GroupVersionKind())
			err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(u), seen)
			*u = *seen
			return true, err
		})
	}
	return objects
}

// index gives objects their kind and name as a key.
func index(objects []unstructured.Unstructured) map[string]*unstructured.Unstructured {
	byName := map[string]*unstructured.Unstructured{}
	for i := range objects {
		byName[objects[i].GetKind()+"/"+objects[i].GetName()] = &objects[i]
	}
	return byName
}

// acceptUpdates writes each object of ours as it is, and with an annotation more, and its status: none may be refused.
func acceptUpdates(t *testing.T, objects []unstructured.Unstructured) {
	t.Helper()
	for i := range objects {
		u := &objects[i]
		if !strings.Contains(u.GroupVersionKind().Group, "kruntimes.io") {
			continue
		}
		name := u.GetKind() + " " + u.GetName()
		same := u.DeepCopy()
		if err := shared.Admin().Update(t.Context(), same); err != nil {
			t.Errorf("%s as it is: %v", name, err)
		}
		if same.GetResourceVersion() != u.GetResourceVersion() {
			t.Errorf("%s is not what this version stores (-before +after):\n%s", name, cmp.Diff(u.Object, same.Object))
		}
		marked := u.DeepCopy()
		marked.SetAnnotations(map[string]string{"example.com/seen": "yes"})
		for key, value := range u.GetAnnotations() {
			annotations := marked.GetAnnotations()
			annotations[key] = value
			marked.SetAnnotations(annotations)
		}
		if err := shared.Admin().Update(t.Context(), marked, client.DryRunAll); err != nil {
			t.Errorf("%s with an annotation: %v", name, err)
		}
		if err := shared.Admin().Status().Update(t.Context(), u.DeepCopy()); err != nil {
			t.Errorf("the status of %s as it is: %v", name, err)
		}
	}
}

// use makes new objects that need recorded ones: a workspace, and Workflows and an Action.
func use(t *testing.T) {
	t.Helper()
	shared.Create(t, &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new-in-workspace"}, Spec: corev1alpha1.RunSpec{
		Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}, Workspace: &corev1alpha1.WorkspaceReference{Name: "bound"}}})
	shared.Create(t, &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new-call"}, Spec: workflowsv1alpha1.WorkflowRunSpec{
		Jobs: map[string]workflowsv1alpha1.Job{
			"new":   {Uses: "release", With: map[string]workflowsv1alpha1.InputValue{"image": "app"}},
			"newer": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "setup", Uses: "toolchain", With: map[string]workflowsv1alpha1.InputValue{"version": "1"}}}},
		}}})
}

func awaitGone(t *testing.T, names ...string) {
	t.Helper()
	cluster.Eventually(t, "what is deleted to be gone", func(ctx context.Context) (bool, error) {
		got, err := states(ctx)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if state, there := got[name]; there {
				return false, fmt.Errorf("%s is there, and %s", name, state)
			}
		}
		return true, nil
	})
}

// isFinished tells whether a recorded object has nothing left to happen to it.
func isFinished(u *unstructured.Unstructured) bool {
	switch u.GetKind() {
	case "Run", "WorkflowRun":
		return slices.Contains([]string{"Succeeded", "Failed", "Cancelled"}, stateOf(u))
	case "Workflow", "Action", "ControllerRevision", "Deployment":
		return true
	case "PersistentWorkspace":
		return stateOf(u) == string(workspacesv1alpha1.WorkspaceLost)
	}
	return false
}

// expectFinishedUntouched checks that nobody has written to what is finished.
func expectFinishedUntouched(t *testing.T, before, after map[string]*unstructured.Unstructured) {
	t.Helper()
	for name, u := range before {
		if !isFinished(u) {
			continue
		}
		if after[name] == nil {
			t.Errorf("%s is gone", name)
		} else if after[name].GetResourceVersion() != u.GetResourceVersion() {
			t.Errorf("%s was written (-before +after):\n%s", name, cmp.Diff(u.Object, after[name].Object))
		}
	}
}

// expectNothingTwice checks that no step has two Runs, no Run was executed twice, and none of those that were there before was
// replaced.
func expectNothingTwice(t *testing.T, p *player, before, after map[string]*unstructured.Unstructured) {
	t.Helper()
	seen := map[string]string{}
	for name, u := range after {
		if u.GetKind() == "Namespace" || u.GetKind() == "Node" {
			continue
		}
		if old := before[name]; old != nil && old.GetUID() != u.GetUID() {
			t.Errorf("%s is another one than before", name)
		}
		owner, labels := metav1.GetControllerOf(u), u.GetLabels()
		if owner == nil || (u.GetKind() != "Run" && u.GetKind() != "WorkflowRun") {
			continue
		}
		identity := strings.Join([]string{u.GetKind(), string(owner.UID), labels[workflowsv1alpha1.LabelJob], labels[workflowsv1alpha1.LabelStep],
			labels[workflowsv1alpha1.LabelActionStep]}, " ")
		if other := seen[identity]; other != "" {
			t.Errorf("%s and %s are for the same step", name, other)
		}
		seen[identity] = name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, times := range p.played {
		if times != 1 {
			t.Errorf("Run %s was executed %d times", uid, times)
		}
	}
}

// expectRetry checks that a Run that waits for its next attempt gets it, and not before its time.
func expectRetry(t *testing.T, after map[string]*unstructured.Unstructured) {
	t.Helper()
	recorded := after["Run/retried"]
	text, _, _ := unstructured.NestedString(recorded.Object, "status", "nextAttemptTime")
	next, err := time.Parse(time.RFC3339Nano, text)
	if stateOf(recorded) == string(corev1alpha1.RunPending) && (err != nil || time.Now().After(next)) {
		cluster.Eventually(t, "the next attempt", func(ctx context.Context) (bool, error) {
			run := &corev1alpha1.Run{}
			err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "retried"}, run)
			return run.Status.Phase == corev1alpha1.RunSucceeded && run.Status.Attempt == 2, err
		})
	}
	var pods corev1.PodList
	if err := shared.Admin().List(t.Context(), &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) != 2 {
		t.Errorf("there are %d Pods: %v", len(pods.Items), err)
	}
}
