package workflowruns

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/test/golden"
)

// calling is a WorkflowRun with a call, in which there is another, and with a step that calls an Action.
func calling() Family {
	root := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "ci", Namespace: "team", UID: "1"},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{
			"build":  {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "setup", Uses: "setup-tools"}, {Name: "make", Run: "make"}}},
			"deploy": {Uses: "roll-out", Needs: []string{"build"}},
			"later":  {Uses: "report", Needs: []string{"deploy"}},
		}},
		Status: workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, StartTime: micro(0), Jobs: map[string]workflowsv1alpha1.JobStatus{
			"build": {Phase: workflowsv1alpha1.JobSucceeded, StartTime: micro(0), CompletionTime: micro(2 * time.Second), Steps: []workflowsv1alpha1.StepStatus{
				{Name: "setup", Phase: corev1alpha1.RunSucceeded, StartTime: micro(0), CompletionTime: micro(time.Second), ActionSteps: []workflowsv1alpha1.ActionStepStatus{
					{Name: "unpack", Phase: corev1alpha1.RunSucceeded, RunName: "ci-build-setup-unpack", StartTime: micro(0), CompletionTime: micro(500 * time.Millisecond)},
					{Name: "check", Phase: corev1alpha1.RunSucceeded, RunName: "ci-build-setup-check", StartTime: micro(600 * time.Millisecond), CompletionTime: micro(time.Second)},
				}},
				{Name: "make", Phase: corev1alpha1.RunSucceeded, RunName: "ci-build-make", StartTime: micro(time.Second), CompletionTime: micro(2 * time.Second)},
			}},
			"deploy": {Phase: workflowsv1alpha1.JobRunning, StartTime: micro(2 * time.Second), WorkflowRunName: "ci-call-deploy"},
			"later":  {Phase: workflowsv1alpha1.JobWaiting},
		}},
	}
	child := childOf(root, "ci-call-deploy", map[string]workflowsv1alpha1.Job{
		"apply": {RunsOn: "sh", Steps: steps("plan", "apply")}, "verify": {Uses: "smoke-test", Needs: []string{"apply"}},
	})
	child.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, StartTime: micro(2 * time.Second), Jobs: map[string]workflowsv1alpha1.JobStatus{
		"apply": {Phase: workflowsv1alpha1.JobSucceeded, StartTime: micro(2 * time.Second), CompletionTime: micro(3 * time.Second), Steps: []workflowsv1alpha1.StepStatus{
			{Name: "plan", Phase: corev1alpha1.RunSucceeded, RunName: "ci-call-deploy-apply-plan", StartTime: micro(2 * time.Second), CompletionTime: micro(2500 * time.Millisecond)},
			{Name: "apply", Phase: corev1alpha1.RunSucceeded, RunName: "ci-call-deploy-apply-apply", StartTime: micro(2500 * time.Millisecond), CompletionTime: micro(3 * time.Second)},
		}},
		"verify": {Phase: workflowsv1alpha1.JobRunning, StartTime: micro(3 * time.Second), WorkflowRunName: "ci-call-deploy-call-verify"},
	}}
	grandchild := childOf(child, "ci-call-deploy-call-verify", map[string]workflowsv1alpha1.Job{"smoke": {RunsOn: "sh", Steps: steps("get")}})
	grandchild.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, StartTime: micro(3 * time.Second), Jobs: map[string]workflowsv1alpha1.JobStatus{
		"smoke": {Phase: workflowsv1alpha1.JobRunning, StartTime: micro(3 * time.Second), Steps: []workflowsv1alpha1.StepStatus{
			{Name: "get", Phase: corev1alpha1.RunRunning, RunName: "ci-call-deploy-call-verify-smoke-get", StartTime: micro(3 * time.Second)},
		}},
	}}
	return Family{Run: root, Children: map[string]*workflowsv1alpha1.WorkflowRun{child.Name: child, grandchild.Name: grandchild}}
}

// childOf is the WorkflowRun of a call.
func childOf(parent *workflowsv1alpha1.WorkflowRun, name string, jobs map[string]workflowsv1alpha1.Job) *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: parent.Namespace, UID: types.UID("uid-of-" + name),
		Labels:          map[string]string{workflowsv1alpha1.LabelWorkflowRunUID: string(parent.UID)},
		OwnerReferences: []metav1.OwnerReference{{Kind: "WorkflowRun", Name: parent.Name, UID: parent.UID, Controller: ptr.To(true)}},
	}, Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs}}
}

// brokenDown is the same when its innermost step has failed.
func brokenDown() Family {
	family := calling()
	end := micro(5 * time.Second)
	inner := family.Children["ci-call-deploy-call-verify"]
	smoke := inner.Status.Jobs["smoke"]
	smoke.Steps[0].Phase, smoke.Steps[0].CompletionTime, smoke.Steps[0].Message = corev1alpha1.RunFailed, end, "ScriptFailed, exit code 7: no answer"
	smoke.Phase, smoke.CompletionTime, smoke.Message = workflowsv1alpha1.JobFailed, end, "step get: "+smoke.Steps[0].Message
	inner.Status.Jobs["smoke"] = smoke
	message := "job smoke failed: " + smoke.Message
	for _, of := range []struct {
		run *workflowsv1alpha1.WorkflowRun
		job string
	}{{inner, ""}, {family.Children["ci-call-deploy"], "verify"}, {family.Run, "deploy"}} {
		if of.job != "" {
			job := of.run.Status.Jobs[of.job]
			job.Phase, job.CompletionTime, job.Message = workflowsv1alpha1.JobFailed, end, message
			of.run.Status.Jobs[of.job] = job
			message = "job " + of.job + " failed: " + message
		}
		of.run.Status.Phase, of.run.Status.CompletionTime, of.run.Status.Message = workflowsv1alpha1.WorkflowFailed, end, message
	}
	return family
}

func TestDrawCalls(t *testing.T) {
	cases := map[string]struct {
		family  Family
		picture Picture
	}{
		"calls.txt":         {family: calling()},
		"calls-details.txt": {family: brokenDown(), picture: Picture{Details: true}},
		"calls-low.txt":     {family: calling(), picture: Picture{Height: 8}},
		"calls-unknown.txt": {family: Alone(brokenDown().Run)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.picture.Now = noon.Add(4 * time.Second)
			golden.Check(t, name, strings.Join(tc.picture.Draw(tc.family), "\n")+"\n")
		})
	}
}

func TestWhatFailedFirstInsideOfACall(t *testing.T) {
	stranger := brokenDown()
	stranger.Children["ci-call-deploy"].OwnerReferences[0].UID = "2"
	cases := map[string]struct {
		family Family
		want   *Failure
	}{
		"is the step": {family: brokenDown(), want: &Failure{Path: "deploy/verify/smoke/get", Phase: "Failed",
			Message: "ScriptFailed, exit code 7: no answer", Run: "ci-call-deploy-call-verify-smoke-get"}},
		"is the call where nothing more is known": {family: Alone(brokenDown().Run), want: &Failure{Path: "deploy", Phase: "Failed",
			Message: "job verify failed: job smoke failed: step get: ScriptFailed, exit code 7: no answer"}},
		"is not looked for in another WorkflowRun of the name": {family: stranger, want: &Failure{Path: "deploy", Phase: "Failed",
			Message: "job verify failed: job smoke failed: step get: ScriptFailed, exit code 7: no answer"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FirstFailure(tc.family)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesInsideOfCalls(t *testing.T) {
	var changes Changes
	var got []string
	now := noon.Add(time.Minute)
	for _, family := range []Family{calling(), brokenDown()} {
		for _, c := range changes.Next(family, now) {
			got = append(got, c.Time.Format("05.0")+" "+c.Path+" "+c.Phase)
		}
		got = append(got, "--")
	}
	want := []string{
		"00.0  Running", "00.5 build/setup/unpack Succeeded", "01.0 build/setup/check Succeeded", "01.0 build/setup Succeeded", "02.0 build/make Succeeded",
		"02.0 build Succeeded", "02.0 deploy Running", "02.5 deploy/apply/plan Succeeded", "03.0 deploy/apply/apply Succeeded", "03.0 deploy/apply Succeeded",
		"03.0 deploy/verify Running", "03.0 deploy/verify/smoke Running", "03.0 deploy/verify/smoke/get Running", "--",
		"05.0 deploy/verify/smoke/get Failed", "05.0 deploy/verify/smoke Failed", "05.0 deploy/verify Failed", "05.0 deploy Failed", "05.0  Failed", "--",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChosenSteps(t *testing.T) {
	all := []string{"build/setup", "build/setup/unpack", "build/setup/check", "build/make",
		"deploy/apply/plan", "deploy/apply/apply", "deploy/verify/smoke/get"}
	cases := map[string]struct {
		steps       Steps
		wantPaths   []string
		wantMembers []string
	}{
		"all":                   {wantPaths: all, wantMembers: []string{" ci", "deploy/ ci-call-deploy", "deploy/verify/ ci-call-deploy-call-verify"}},
		"a job":                 {steps: Steps{Job: "build"}, wantPaths: all[:4], wantMembers: []string{" ci"}},
		"a call":                {steps: Steps{Job: "deploy"}, wantPaths: all[4:], wantMembers: []string{" ci", "deploy/ ci-call-deploy", "deploy/verify/ ci-call-deploy-call-verify"}},
		"a step inside":         {steps: Steps{Step: "get"}, wantPaths: all[6:], wantMembers: []string{" ci", "deploy/ ci-call-deploy", "deploy/verify/ ci-call-deploy-call-verify"}},
		"a step of an Action":   {steps: Steps{Step: "check"}, wantPaths: all[2:3], wantMembers: []string{" ci", "deploy/ ci-call-deploy", "deploy/verify/ ci-call-deploy-call-verify"}},
		"a step with an Action": {steps: Steps{Job: "build", Step: "setup"}, wantPaths: all[:3], wantMembers: []string{" ci"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var members []string
			for _, m := range calling().Members(tc.steps) {
				members = append(members, m.Prefix+" "+m.Run.Name)
				if m.Prefix != "" && m.Steps.Job != "" {
					t.Errorf("%s is asked for the job %q, which is one of its parent", m.Run.Name, m.Steps.Job)
				}
			}
			if diff := cmp.Diff([][]string{tc.wantPaths, tc.wantMembers}, [][]string{tc.steps.Paths(calling()), members}); diff != "" {
				t.Errorf("paths, members (-want +got):\n%s", diff)
			}
		})
	}
	if !calling().Complete("deploy") || calling().Complete("") { // the call "later" has not been made
		t.Error("Complete does not tell what is known")
	}
}

func TestLoad(t *testing.T) {
	family := calling()
	planted := childOf(family.Run, "planted", nil)
	planted.OwnerReferences = nil
	b := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(family.Run, planted)
	for _, child := range family.Children {
		b = b.WithObjects(child)
	}
	got, err := Load(t.Context(), b.Build(), family.Run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(family, got, cmp.Transformer("name", func(run *workflowsv1alpha1.WorkflowRun) string { return run.Name })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The watch of a fake client does not begin with what there is, so the end is written again and again.
func TestACallIsTrackedToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		family, ended := calling(), brokenDown()
		b := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(family.Run)
		for _, child := range family.Children {
			b = b.WithObjects(child)
		}
		c := b.Build()
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(500 * time.Millisecond):
				}
				for _, run := range []*workflowsv1alpha1.WorkflowRun{ended.Children["ci-call-deploy-call-verify"], ended.Children["ci-call-deploy"], ended.Run} {
					stored := &workflowsv1alpha1.WorkflowRun{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(run), stored); err != nil {
						continue
					}
					stored.Status = run.Status
					_ = c.Update(ctx, stored) // the next round is another try
				}
			}
		}()
		sawInside := false
		for sight := range TrackFamily(ctx, c, clock.RealClock{}, family.Run) {
			if err := errors.Join(sight.Err, sight.Lost); err != nil {
				t.Fatal(err)
			}
			inner := sight.Family.Children["ci-call-deploy-call-verify"]
			sawInside = sawInside || inner != nil && !Phase(inner).IsTerminal()
			if !Phase(sight.Object).IsTerminal() {
				continue
			}
			if diff := cmp.Diff(FirstFailure(ended), FirstFailure(sight.Family)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !sawInside {
				t.Error("the innermost WorkflowRun was not seen before its end")
			}
			return
		}
		t.Error("the sights ended before the WorkflowRun")
	})
}
