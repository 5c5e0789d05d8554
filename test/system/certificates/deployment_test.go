package certificates

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// pod is the program of a rendered Deployment, as it would run in its Pod.
type pod struct {
	child
	// addresses are where the named ports of the container really are.
	addresses map[string]string
	// mounts are the mounted Secrets, by the name of the Secret.
	mounts map[string]*mount
}

// startDeployment runs the program of a Deployment: its arguments and environment as they are rendered, its Secrets mounted,
// under its ServiceAccount; its ports are other ones.
func startDeployment(t *testing.T, objects []*unstructured.Unstructured, name, binary string) *pod {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "Deployment", name).Object, deployment); err != nil {
		t.Fatal(err)
	}
	spec := deployment.Spec.Template.Spec
	container := spec.Containers[0]
	p := &pod{addresses: map[string]string{}, mounts: map[string]*mount{}}
	var replaced []string // pairs of what is rendered and what is meant here
	for _, port := range container.Ports {
		free, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		p.addresses[port.Name] = net.JoinHostPort("127.0.0.1", strconv.Itoa(free))
		replaced = append(replaced, fmt.Sprintf("=:%d", port.ContainerPort), "="+p.addresses[port.Name])
	}
	for _, env := range container.Env {
		replaced = append(replaced, "$("+env.Name+")", valueOf(t, env, spec.ServiceAccountName))
	}
	for _, volume := range spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		followed := newMount(t, shared.Admin(), client.ObjectKey{Namespace: config.Namespace, Name: volume.Secret.SecretName})
		p.mounts[volume.Secret.SecretName] = followed
		for _, mounted := range container.VolumeMounts {
			if mounted.Name == volume.Name {
				replaced = append(replaced, "="+mounted.MountPath, "="+followed.dir)
			}
		}
	}
	args := []string{"--kubeconfig=" + writeKubeconfig(t, shared.ServiceAccount(t, config.Namespace, spec.ServiceAccountName))}
	for _, arg := range container.Args {
		args = append(args, strings.NewReplacer(replaced...).Replace(arg))
	}
	p.child = start(t, name, filepath.Join(bin, binary), args...)
	for _, port := range container.Ports {
		p.serve(t, port.Name)
	}
	return p
}

// valueOf is what a container finds in its environment.
func valueOf(t *testing.T, env corev1.EnvVar, account string) string {
	t.Helper()
	if env.ValueFrom == nil {
		return env.Value
	}
	field := env.ValueFrom.FieldRef.FieldPath
	value, known := map[string]string{"metadata.namespace": config.Namespace, "spec.serviceAccountName": account}[field]
	if !known {
		t.Fatalf("variable %s asks for %s", env.Name, field)
	}
	return value
}

// serve has the Services that lead to a port of the Pod lead to the program.
func (p *pod) serve(t *testing.T, port string) {
	t.Helper()
	services := &corev1.ServiceList{}
	if err := shared.Admin().List(t.Context(), services, client.InNamespace(config.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, service := range services.Items {
		for _, led := range service.Spec.Ports {
			if led.TargetPort.StrVal == port {
				network.lead(net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(led.Port))), p.addresses[port])
			}
		}
	}
}

// isRunning fails the test where the program has ended, which a Pod would show as a restart.
func (p *pod) isRunning(t *testing.T) {
	t.Helper()
	if err := p.Err(); err != nil {
		t.Errorf("%s ended: %v", p.log, err)
	}
}

func writeKubeconfig(t *testing.T, cfg *rest.Config) (file string) {
	t.Helper()
	const name = "test"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// install applies what config/default renders, exactly as it is rendered, and returns it; with components where some are named.
// ServiceMonitors are left out: their kind belongs to somebody else.
func install(t *testing.T, components ...string) (objects []*unstructured.Unstructured) {
	t.Helper()
	manifests, err := config.Render(config.OverlayDefault)
	if len(components) > 0 {
		manifests, err = renderWith(t, components)
	}
	if err == nil {
		objects, err = cluster.Decode(manifests)
	}
	if err != nil {
		t.Fatal(err)
	}
	shared.Apply(t, slices.DeleteFunc(slices.Clone(objects), func(u *unstructured.Unstructured) bool { return u.GetKind() == "ServiceMonitor" }))
	cluster.Eventually(t, "the authorities of all webhooks", func(ctx context.Context) (bool, error) {
		_, err := bundle(ctx, shared.Admin())
		return true, err
	})
	return objects
}

// renderWith renders config/default as it is after "kustomize edit add component" for each.
func renderWith(t *testing.T, components []string) ([]byte, error) {
	t.Helper()
	tree := t.TempDir()
	if err := os.CopyFS(tree, os.DirFS(filepath.Join("..", "..", "..", "config"))); err != nil {
		return nil, err
	}
	file := filepath.Join(tree, config.OverlayDefault, "kustomization.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var overlay map[string]any
	if err := yaml.Unmarshal(raw, &overlay); err != nil {
		return nil, err
	}
	list, _ := overlay["components"].([]any)
	for _, name := range components {
		list = append(list, "../components/"+name)
	}
	overlay["components"] = list
	if raw, err = yaml.Marshal(overlay); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return nil, err
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	return rendered.AsYaml()
}
