package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// wide makes a WorkflowRun with a number of jobs, each of five steps.
func wide(namespace string, jobs int) *workflowsv1alpha1.WorkflowRun {
	run := newWorkflowRun(namespace, "")
	run.GenerateName = "wide-"
	run.Spec.Jobs = map[string]workflowsv1alpha1.Job{}
	for i := range jobs {
		job := workflowsv1alpha1.Job{RunsOn: "sh"}
		for k := range 5 {
			job.Steps = append(job.Steps, workflowsv1alpha1.Step{Name: fmt.Sprintf("s%d", k), Run: strings.Repeat("echo ${{ 'x' }}\n", 5)})
		}
		run.Spec.Jobs[fmt.Sprintf("j%02d", i)] = job
	}
	return run
}

// BenchmarkCreation measures what early words cost whoever creates a WorkflowRun: without the webhook; with it; with it, for the
// WorkflowRun of a call, which is not asked about. Nothing is stored, so that nothing is executed beside it.
func BenchmarkCreation(b *testing.B) {
	plain, asked := shared.Namespace(b), shared.Namespace(b)
	address := ""
	shared.StartManager(b, func(o *manager.Options) { address = o.Admission.Address })
	shared.AskForEarlyWords(b, asked, address)
	admin := shared.Admin()
	cluster.Eventually(b, "early words", func(ctx context.Context) (bool, error) {
		broken := wide(asked, 1)
		broken.Spec.Jobs["a"] = workflowsv1alpha1.Job{}
		return apierrors.IsInvalid(admin.Create(ctx, broken, client.DryRunAll)), nil
	})
	caller := newWorkflowRun(asked, "caller")
	caller.UID = "u"
	for _, jobs := range []int{1, 20, 64} {
		for name, run := range map[string]*workflowsv1alpha1.WorkflowRun{
			"without": wide(plain, jobs), "with": wide(asked, jobs), "of a call": child(caller, wide(asked, jobs)),
		} {
			b.Run(fmt.Sprintf("%s, %d jobs", name, jobs), func(b *testing.B) {
				for b.Loop() {
					if err := admin.Create(b.Context(), run.DeepCopy(), client.DryRunAll); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
