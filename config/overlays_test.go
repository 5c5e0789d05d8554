package config

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kustomization is the content of a kustomization.yaml.
type kustomization map[string]any

func (k kustomization) add(field string, items ...any) {
	list, _ := k[field].([]any)
	k[field] = append(list, items...)
}

// build renders a folder of the tree after a kustomization.yaml of it was changed, or made, as "kustomize edit" does.
func build(t *testing.T, folder string, edit func(kustomization)) []byte {
	t.Helper()
	disk := filesys.MakeFsInMemory()
	if err := copyTree(disk); err != nil {
		t.Fatal(err)
	}
	file, content := path.Join(folder, "kustomization.yaml"), kustomization{}
	if disk.Exists(file) {
		raw, err := disk.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, &content); err != nil {
			t.Fatal(err)
		}
	}
	edit(content)
	raw, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(file, raw); err != nil {
		t.Fatal(err)
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, folder)
	if err != nil {
		t.Fatalf("building %s: %v", folder, err)
	}
	out, err := objects.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unchanged(kustomization) {}

// rename is what "kustomize edit set namespace | nameprefix | image" write.
func rename(k kustomization) {
	k["namespace"], k["namePrefix"] = "acme", "acme-"
	k["images"] = []any{
		map[string]any{"name": "kruntimes/controlplane", "newName": "registry.example.com/controlplane", "newTag": "v1"},
		map[string]any{"name": "kruntimes/node", "newName": "registry.example.com/node", "newTag": "v1"},
	}
}

// onTop makes an overlay of somebody's own.
func onTop(below string) func(kustomization) {
	return func(k kustomization) {
		k.add("resources", "../"+below)
		rename(k)
		k.add("transformers", "../clusterscope")
		if below != "overlays/core" {
			k.add("transformers", "../webhooknames")
		}
	}
}

func TestReferencesResolve(t *testing.T) {
	for _, overlay := range []string{"default", "overlays/core", "overlays/core-workspaces", "overlays/all"} {
		t.Run(overlay, func(t *testing.T) {
			checkReferences(t, parse(t, build(t, overlay, unchanged)), Namespace)
		})
		t.Run(overlay+" with every component", func(t *testing.T) {
			up := strings.Repeat("../", strings.Count(overlay, "/")+1)
			checkReferences(t, parse(t, build(t, overlay, func(k kustomization) {
				for _, component := range []string{"configuration", "high-availability", "prometheus"} {
					k.add("components", up+"components/"+component)
				}
				if overlay != "overlays/core" { // where nothing is asked, there is no port to open
					k.add("components", up+"components/network-policy")
				}
			})), Namespace)
		})
	}
}

// TestNamesChangeTogether changes namespace, prefix and images in place and in an overlay on top. Nothing of what was there
// before may be left.
func TestNamesChangeTogether(t *testing.T) {
	constants := regexp.MustCompile(`secretName: kruntimes-webhook-[a-z]+|commonName: kruntimes-webhook-authority`)
	for _, overlay := range []string{"default", "overlays/core", "overlays/core-workspaces"} {
		for how, raw := range map[string][]byte{
			"in place": build(t, overlay, func(k kustomization) {
				rename(k)
				k.add("components", strings.Repeat("../", strings.Count(overlay, "/")+1)+"components/prometheus")
			}),
			"on top": build(t, "mine", onTop(overlay)),
		} {
			t.Run(overlay+" "+how, func(t *testing.T) {
				i := checkReferences(t, parse(t, raw), "acme")
				text := constants.ReplaceAllString(string(raw), "")
				old := regexp.MustCompile(`kruntimes-system|kruntimes/(controlplane|node)|(^|[^-])kruntimes-(manager|scheduler|runtimed|webhook|view|edit|workspace-u)`)
				if left := old.FindAllString(text, -1); len(left) > 0 {
					t.Errorf("names from before are left: %q", left)
				}
				for name, d := range i.deployments {
					c := d.Spec.Template.Spec.Containers[0]
					if c.Image != "registry.example.com/controlplane:v1" {
						t.Errorf("%s has image %s", name, c.Image)
					}
					for _, e := range c.Env {
						if e.Name == "NODE_IMAGE" && e.Value != "registry.example.com/node:v1" {
							t.Errorf("%s hands on image %s", name, e.Value)
						}
					}
				}
			})
		}
	}
}

func TestDefaultIsTheOverlayWithAllGroups(t *testing.T) {
	if diff := cmp.Diff(string(build(t, "overlays/all", unchanged)), string(build(t, "default", unchanged))); diff != "" {
		t.Errorf("-overlays/all +default:\n%s", diff)
	}
}

// TestOverlaysHoldNothingOfOtherGroups looks for API groups wherever an object can name one: kinds, rules, policies, flows.
func TestOverlaysHoldNothingOfOtherGroups(t *testing.T) {
	const workspaces, workflows, certManager = "workspaces.kruntimes.io", "workflows.kruntimes.io", "cert-manager.io"
	cases := map[string]struct {
		groups []string
		want   []string
		value  string
	}{
		"core alone":          {[]string{"core"}, []string{"kruntimes.io"}, "core"},
		"core and workspaces": {[]string{"core", "workspaces"}, []string{certManager, "kruntimes.io", workspaces}, "core,workspaces"},
		"all": {[]string{"core", "workspaces", "workflows"}, []string{certManager, "kruntimes.io", workflows, workspaces},
			"core,workspaces,workflows"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := parse(t, build(t, Overlay(tc.groups), unchanged))
			var found []string
			for _, u := range objects {
				found = append(found, groupsNamed(u)...)
			}
			slices.Sort(found)
			if diff := cmp.Diff(tc.want, slices.Compact(found)); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			dev := parse(t, build(t, DevOverlay(tc.groups), unchanged))
			checkDev(t, objects, dev)
			for name, d := range checkReferences(t, objects, Namespace).deployments {
				if e := d.Spec.Template.Spec.Containers[0].Env[0]; e.Name != "GROUPS" || e.Value != tc.value {
					t.Errorf("%s is told of groups by %+v, want %s", name, e, tc.value)
				}
			}
			asksAnybody := len(webhooksOf(t, objects)) > 0
			hasService := slices.ContainsFunc(objects, func(u unstructured.Unstructured) bool { return u.GetKind() == "Service" })
			hasHistory := strings.Contains(string(build(t, Overlay(tc.groups), unchanged)), "controllerrevisions")
			if want := len(tc.groups) > 1; asksAnybody != want || hasService != want {
				t.Errorf("webhooks %v, Service %v, want %v", asksAnybody, hasService, want)
			}
			if want := len(tc.groups) > 2; hasHistory != want {
				t.Errorf("speaks of controllerrevisions: %v, want %v", hasHistory, want)
			}
		})
	}
}

// checkDev looks whether a dev overlay is the other one without what runs in the cluster.
func checkDev(t *testing.T, whole, dev []unstructured.Unstructured) {
	t.Helper()
	ids := func(objects []unstructured.Unstructured) []string {
		var all []string
		for _, u := range objects {
			if !slices.Contains([]string{"Deployment", "Service", "Certificate", "Issuer"}, u.GetKind()) {
				all = append(all, u.GetKind()+"/"+u.GetName())
			}
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff(ids(whole), ids(dev)); diff != "" {
		t.Errorf("dev overlay (-whole +dev):\n%s", diff)
	}
}

// groupsNamed returns the API groups of ours and of cert-manager that an object is of, defines, or speaks about in rules.
func groupsNamed(u unstructured.Unstructured) []string {
	isOurs := func(group string) bool {
		return strings.HasSuffix(group, "kruntimes.io") || strings.HasSuffix(group, "cert-manager.io")
	}
	found := []string{u.GroupVersionKind().Group}
	if u.GetKind() == "CustomResourceDefinition" {
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		return []string{group}
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if groups, ok := v["apiGroups"].([]any); ok {
				for _, g := range groups {
					found = append(found, g.(string))
				}
			}
			for key, item := range v {
				if strings.HasPrefix(key, "cert-manager.io/") {
					found = append(found, "cert-manager.io")
				}
				walk(item)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(u.Object)
	return slices.DeleteFunc(found, func(group string) bool { return !isOurs(group) })
}
