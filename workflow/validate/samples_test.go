package validate

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// TestSamplesAreValid checks what users copy first.
func TestSamplesAreValid(t *testing.T) {
	checked := map[string]int{}
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind, errs := validateFile(t, file, data)
		checked[kind]++
		if len(errs) > 0 {
			t.Errorf("%s: %v", file, errs.ToAggregate())
		}
	}
	for _, kind := range []string{"WorkflowRun", "Workflow", "Action"} {
		if checked[kind] == 0 {
			t.Errorf("no %s was found", kind)
		}
	}
}

func validateFile(t *testing.T, file string, data []byte) (kind string, errs field.ErrorList) {
	t.Helper()
	var meta metav1.TypeMeta
	var run workflowsv1alpha1.WorkflowRun
	var workflow workflowsv1alpha1.Workflow
	var action workflowsv1alpha1.Action
	read := func(into any) {
		if err := yaml.Unmarshal(data, into); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
	}
	read(&meta)
	switch meta.Kind {
	case "WorkflowRun":
		read(&run)
		errs = WorkflowRun(&run.Spec)
	case "Workflow":
		read(&workflow)
		errs = Workflow(&workflow.Spec)
	case "Action":
		read(&action)
		errs = Action(&action.Spec)
	}
	return meta.Kind, errs
}
