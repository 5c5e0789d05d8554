package manager

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/config"
)

// TestTheDeploymentUsesFlagsThatExist parses the arguments of the installed Deployment as the kubelet would hand them on.
func TestTheDeploymentUsesFlagsThatExist(t *testing.T) {
	manifests, err := config.Render(config.OverlayDefault)
	if err != nil {
		t.Fatal(err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var d appsv1.Deployment
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			t.Fatal("the default overlay has no Deployment named kruntimes-manager")
		} else if err != nil {
			t.Fatal(err)
		}
		if d.Kind != "Deployment" || d.Name != "kruntimes-manager" {
			continue
		}
		c := d.Spec.Template.Spec.Containers[0]
		env := map[string]string{"POD_NAMESPACE": d.Namespace, "POD_SERVICE_ACCOUNT": d.Spec.Template.Spec.ServiceAccountName}
		for _, e := range c.Env {
			if e.Value != "" {
				env[e.Name] = e.Value
			}
		}
		var args []string
		for _, arg := range c.Args {
			args = append(args, os.Expand(replaceParens(arg), func(name string) string { return env[name] }))
		}
		o := Options{Config: &rest.Config{}}
		flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
		o.AddFlags(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatalf("parsing %v: %v", args, err)
		}
		if err := o.validate(); err != nil {
			t.Errorf("validating %v: %v", args, err)
		}
		if o.RuntimedClusterRole != config.RuntimedClusterRole || o.LeaderElectionNamespace != config.Namespace || !o.LeaderElection ||
			o.Admission.Controller != config.Namespace+"/"+config.ManagerServiceAccount || o.Admission.UserRole != config.WorkspaceUserClusterRole {
			t.Errorf("got options %+v", o)
		}
		return
	}
}

// replaceParens turns the $(NAME) of Kubernetes into the ${NAME} of a shell.
func replaceParens(arg string) string {
	return strings.NewReplacer("$(", "${", ")", "}").Replace(arg)
}
