package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// freeAddress returns where a server may listen.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// probe returns the code and text with which a manager answers the kubelet.
func probe(ctx context.Context, address, path string) (code int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// TestAReplicaThatDoesNotLeadAnswers keeps Runs with a workspace possible while a leader is on its way out.
func TestAReplicaThatDoesNotLeadAnswers(t *testing.T) {
	ns := shared.Namespace(t)
	elect := func(health string) func(*manager.Options) {
		return func(o *manager.Options) {
			o.LeaderElection, o.LeaderElectionNamespace, o.HealthAddress = true, config.Namespace, health
		}
	}
	leader, standby := freeAddress(t), freeAddress(t)
	shared.StartManager(t, elect(leader))
	awaitReady(t, leader)
	cluster.Eventually(t, "a leader", func(ctx context.Context) (bool, error) {
		lease := &unstructured.Unstructured{}
		lease.SetAPIVersion("coordination.k8s.io/v1")
		lease.SetKind("Lease")
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: "kruntimes-manager"}, lease)
		holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
		return holder != "", err
	})
	startManager(t, ns, elect(standby)) // waits until this one, and no other, has decided
	awaitReady(t, standby)
}

// awaitReady waits until a manager calls itself ready, and checks that admission is part of that.
func awaitReady(t *testing.T, address string) {
	t.Helper()
	cluster.Eventually(t, "a ready manager", func(ctx context.Context) (bool, error) {
		code, text, err := probe(ctx, address, "/readyz?verbose")
		if code == http.StatusOK && !strings.Contains(text, "[+]admission ok") {
			t.Fatalf("the manager is ready whether or not it can answer: %s", text)
		}
		return code == http.StatusOK, err
	})
}

// TestAManagerWithoutACertificateEnds holds that it does not go on as if it answered.
func TestAManagerWithoutACertificateEnds(t *testing.T) {
	options := manager.Options{Config: shared.ServiceAccount(t, config.Namespace, config.ManagerServiceAccount), NodeImage: cluster.NodeImage,
		Admission: manager.AdmissionOptions{Address: freeAddress(t), CertDir: t.TempDir(), Controller: "a/b"}}
	err := manager.Run(t.Context(), options)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(fmt.Sprint(err), "tls.crt") {
		t.Errorf("the manager ended with %v, want an error that names tls.crt", err)
	}
}

// TestWithoutTheGroupWorkspacesAreRefused tries the policy of installations without the workspaces group.
func TestWithoutTheGroupWorkspacesAreRefused(t *testing.T) {
	ns := shared.Namespace(t)
	file, err := os.Open("../../../config/policy/workspace_group.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for range 2 {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(u); err != nil {
			t.Fatal(err)
		}
		if u.GetKind() == "ValidatingAdmissionPolicyBinding" { // for this test's namespace only
			selector := map[string]any{corev1.LabelMetadataName: ns}
			if err := unstructured.SetNestedMap(u.Object, selector, "spec", "matchResources", "namespaceSelector", "matchLabels"); err != nil {
				t.Fatal(err)
			}
		}
		shared.Create(t, u)
		t.Cleanup(func() {
			if err := shared.Admin().Delete(context.WithoutCancel(t.Context()), u); err != nil {
				t.Errorf("deleting %s %s: %v", u.GetKind(), u.GetName(), err)
			}
		})
	}
	cluster.Eventually(t, "the policy to decide", func(ctx context.Context) (bool, error) {
		run := newRun(ns, "", "ci")
		run.GenerateName = "with-"
		err := shared.Admin().Create(ctx, run)
		if err != nil && strings.Contains(err.Error(), "spec.workspace cannot be used: the workspaces group is not enabled") {
			return true, nil
		}
		return false, err
	})
	expectError(t, "a Run without a workspace", shared.Admin().Create(t.Context(), newRun(ns, "without", "")), "")
}
