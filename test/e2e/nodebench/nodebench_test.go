//go:build nodebench

// Package nodebench measures, on a cluster with a real kubelet, how soon a script begins and ends as a Run, as a step and as a
// Pod of its own.
package nodebench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/e2e"
)

const (
	runs, steps, pods = 50, 21, 10
	// begun and ended have bash tell the time without another process.
	begun = "echo begun=$EPOCHREALTIME >>$KRUNTIME_OUTPUTS\n"
	ended = "echo ended=$EPOCHREALTIME >>$KRUNTIME_OUTPUTS\n"
)

// TestFigures prints a table. All clocks are that of one machine.
func TestFigures(t *testing.T) {
	env := e2e.New(t)
	env.Cluster()
	env.Runtime("bash")
	w, err := client.NewWithWatch(env.Config, client.Options{Scheme: e2e.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, env: env, client: w}
	for range 5 {
		env.WaitRun(env.Run("bash", begun))
	}
	rows := []row{}
	started, terminal := b.measure(runs, b.oneRun)
	rows = append(rows, row{"Run on a warm Pod: create → script begins", started}, row{"Run on a warm Pod: create → Succeeded is seen", terminal})
	rows = append(rows, row{"WorkflowRun: a step's script ends → the next one's begins", b.gaps()})
	started, terminal = b.measure(pods, b.onePod)
	rows = append(rows, row{"bare Pod, same image: create → script begins", started}, row{"bare Pod, same image: create → Succeeded is seen", terminal})
	printTable(rows)
}

type row struct {
	what  string
	times []time.Duration
}

func printTable(rows []row) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tN\tP50\tP95")
	for _, r := range rows {
		slices.Sort(r.times)
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", r.what, len(r.times), quantile(r.times, 50).Round(100*time.Microsecond), quantile(r.times, 95).Round(100*time.Microsecond))
	}
	_ = table.Flush()
}

// quantile is the smallest of the sorted times that is not below that many percent of them.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

type bench struct {
	t      *testing.T
	env    *e2e.Env
	client client.WithWatch
}

// measure does something n times, one after the other.
func (b *bench) measure(n int, once func(i int) (begun, seen time.Duration)) (started, terminal []time.Duration) {
	for i := range n {
		begun, seen := once(i)
		started, terminal = append(started, begun), append(terminal, seen)
	}
	return started, terminal
}

// ends creates an object and returns when, and when a watch told that it has ended.
func (b *bench) ends(object client.Object, list client.ObjectList, hasEnded func(client.Object) bool) (created, seen time.Time) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), e2e.Deadline)
	defer cancel()
	object.SetNamespace(b.env.Namespace)
	events, err := b.client.Watch(ctx, list, client.InNamespace(b.env.Namespace), client.MatchingFields{"metadata.name": object.GetName()})
	if err != nil {
		b.t.Fatal(err)
	}
	defer events.Stop()
	created = time.Now()
	if err := b.client.Create(ctx, object); err != nil {
		b.t.Fatal(err)
	}
	for event := range events.ResultChan() {
		if now, ok := event.Object.(client.Object); ok && hasEnded(now) {
			return created, time.Now()
		}
	}
	b.t.Fatalf("%T %s did not end", object, object.GetName())
	return created, seen
}

// oneRun measures a Run.
func (b *bench) oneRun(i int) (started, terminal time.Duration) {
	b.t.Helper()
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("run-%d", i)}}
	run.Spec.Runtime, run.Spec.Source = "bash", &corev1alpha1.RunSource{Inline: begun}
	var status corev1alpha1.RunStatus
	created, seen := b.ends(run, &corev1alpha1.RunList{}, func(now client.Object) bool {
		status = now.(*corev1alpha1.Run).Status
		return status.Phase.IsTerminal()
	})
	if status.Phase != corev1alpha1.RunSucceeded {
		b.t.Fatalf("a Run ended %+v", status)
	}
	return b.clock(string(status.Outputs["begun"])).Sub(created), seen.Sub(created)
}

// onePod measures a Pod that executes the same script.
func (b *bench) onePod(i int) (started, terminal time.Duration) {
	b.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "script", Image: e2e.Setting("BASH_IMAGE"), ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"/bin/bash", "-e", "-c", "echo $EPOCHREALTIME >/dev/termination-log"},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
	var status corev1.PodStatus
	created, seen := b.ends(pod, &corev1.PodList{}, func(now client.Object) bool {
		status = now.(*corev1.Pod).Status
		return status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed
	})
	if status.Phase != corev1.PodSucceeded {
		b.t.Fatalf("a Pod ended %+v", status)
	}
	return b.clock(status.ContainerStatuses[0].State.Terminated.Message).Sub(created), seen.Sub(created)
}

// gaps measures the time between the steps of a job.
func (b *bench) gaps() (gaps []time.Duration) {
	b.t.Helper()
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "steps"}}
	job := workflowsv1alpha1.Job{RunsOn: "bash"}
	for i := range steps {
		job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("step-%d", i), Run: begun + ended})
	}
	run.Spec.Jobs = map[string]workflowsv1alpha1.Job{"job": job}
	b.env.Create(run)
	executed := b.env.WaitSucceeded("steps").Status.Jobs["job"].Steps
	for i := 1; i < len(executed); i++ {
		gaps = append(gaps, b.clock(string(executed[i].Outputs["begun"])).Sub(b.clock(string(executed[i-1].Outputs["ended"]))))
	}
	return gaps
}

// clock reads what bash calls EPOCHREALTIME: seconds with six decimals.
func (b *bench) clock(text string) time.Time {
	b.t.Helper()
	digits := make([]byte, 0, len(text))
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' {
			digits = append(digits, c)
		}
	}
	micros, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		b.t.Fatalf("a script said that it is %q: %v", text, err)
	}
	return time.UnixMicro(micros)
}
