package core

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// "kubectl get runs" shows what the API server makes of a Run: it must say why one waits.
func TestTheTableOfRunsSaysWhyOneWaits(t *testing.T) {
	ns := shared.Namespace(t)
	run := manifest(t, "Run", ns, "waits", `{`+commandRun+`}`)
	shared.Create(t, run)
	waits := &corev1alpha1.Run{}
	waits.Namespace, waits.Name = ns, "waits"
	if err := writeStatus(t, waits, map[string]any{"phase": "Pending", "conditions": []any{map[string]any{
		"type": "Scheduled", "status": "False", "reason": "NoReadyPods", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}}}); err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := clientset.CoreV1().RESTClient().Get().AbsPath("/apis/kruntimes.io/v1alpha1/namespaces/"+ns+"/runs").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 && column.Name != "Age" {
			got[column.Name] = table.Rows[0].Cells[i]
		}
	}
	want := map[string]any{"Name": "waits", "Runtime": "sh", "Phase": "Pending", "Scheduled": "NoReadyPods", "Reason": nil, "Exit": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
