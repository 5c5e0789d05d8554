package dev

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/lint"
	"kruntimes.io/kruntimes/krt/workflow"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// fieldOwner is the name under which manifests are applied.
const fieldOwner = client.FieldOwner("krt-dev-run")

// manifests are the objects of a file.
type manifests struct {
	// others are applied, in their order.
	others []*unstructured.Unstructured
	// run is created when they are there.
	run *workflowsv1alpha1.WorkflowRun
}

// newManifests sorts the objects of a file: what others live in, what Pods mount, then Runtimes, then the rest, and the WorkflowRun apart.
func newManifests(file string, documents []lint.Document) (*manifests, error) {
	m := &manifests{}
	for _, d := range documents {
		if d.Object.GroupVersionKind() != cli.KindWorkflowRun.GroupVersionKind() {
			m.others = append(m.others, d.Object)
			continue
		}
		if m.run != nil {
			return nil, cli.WithHint(cli.Usagef("%s holds a second WorkflowRun at %s, and one is run at a time", lint.FileName(file), d.Place()),
				"make files of their own of them")
		}
		var err error
		if m.run, err = workflow.FromDocument(d); err != nil {
			return nil, err
		}
	}
	if m.run == nil {
		return nil, cli.WithHint(cli.Usagef("%s holds no WorkflowRun", lint.FileName(file)), "apply other manifests with kubectl")
	}
	slices.SortStableFunc(m.others, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	return m, nil
}

func rank(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case "Namespace", "CustomResourceDefinition":
		return 0
	case "PersistentVolumeClaim", "Secret", "ConfigMap": // what Pods of Runtimes mount
		return 1
	case string(cli.KindRuntime):
		return 2
	case string(cli.KindRun):
		return 4
	}
	return 3
}

// apply applies all objects but the WorkflowRun by server-side apply, and gives those without a namespace the one of the
// command line.
func (m *manifests) apply(ctx context.Context, f *cli.Factory, quiet bool) error {
	namespace, err := f.Namespace()
	if err != nil {
		return err
	}
	if m.run.Namespace == "" {
		m.run.Namespace = namespace
	}
	if len(m.others) == 0 {
		return nil
	}
	config, err := f.RESTConfig()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: cli.NewScheme()}) // asks the cluster which kinds it knows
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, object := range m.others {
		name := object.GetKind() + " " + object.GetName()
		namespaced, err := c.IsObjectNamespaced(object)
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("applying %s: the dev cluster does not know the kind", name)
		}
		if err != nil {
			return fmt.Errorf("applying %s: %w", name, err)
		}
		if namespaced && object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s: %w", name, err)
		}
		if !quiet {
			fmt.Fprintf(f.IO.ErrOut, "krt: %s applied\n", name)
		}
	}
	return nil
}

// chooseName gives a WorkflowRun whose name is taken by a finished one a name of its own.
func chooseName(ctx context.Context, c client.Client, run *workflowsv1alpha1.WorkflowRun) error {
	if run.Name == "" {
		return nil
	}
	there, err := workflowruns.Get(ctx, c, run.Namespace, run.Name)
	switch {
	case cli.IsMissing(err):
		return nil
	case err != nil:
		return err
	case !there.Status.Phase.IsTerminal():
		return cli.WithHint(apierrors.NewAlreadyExists(workflowsv1alpha1.GroupVersion.WithResource("workflowruns").GroupResource(), run.Name),
			"it has not ended: see it with `krt watch workflowrun %[1]s -n %[2]s`, or end it with `krt cancel workflowrun %[1]s -n %[2]s`", run.Name, run.Namespace)
	}
	run.GenerateName, run.Name = run.Name+"-", ""
	return nil
}
