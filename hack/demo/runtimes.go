package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(corev1alpha1.AddToScheme(s))
	utilruntime.Must(workflowsv1alpha1.AddToScheme(s))
	return s
}

// runtimeFiles hold the example Runtimes, and what they need; definitionFiles what the WorkflowRuns call.
var (
	runtimeFiles    = []string{"examples/runtimes.yaml", "examples/artifacts.yaml"}
	definitionFiles = []string{"examples/reuse/build.yaml", "examples/reuse/verify.yaml"}
)

// apply creates what is in the files, and waits until the Pods of Runtimes are warm.
func (d *demo) apply(ctx context.Context, files []string) error {
	begin := time.Now()
	for _, file := range files {
		title("Creating what is in %s", file)
		objects, err := readManifests(file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := d.create(ctx, o, begin); err != nil {
				return err
			}
		}
	}
	return nil
}

// create creates an object and waits, where that is a Runtime, for its Pods.
func (d *demo) create(ctx context.Context, o *unstructured.Unstructured, begin time.Time) error {
	isRuntime := o.GetKind() == "Runtime"
	if isRuntime && o.GetName() == "python" && !d.python {
		say("runtime %s left out: this machine has no python3", o.GetName())
		return nil
	}
	o.SetNamespace(d.namespace)
	if err := d.client.Create(ctx, o); err != nil {
		return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if !isRuntime {
		say("%s %s created", o.GetKind(), o.GetName())
		return nil
	}
	r := &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: o.GetName()}}
	if err := d.waitWarm(ctx, r); err != nil {
		return err
	}
	say("runtime %s: %d of %d Pods ready after %s", r.Name, r.Status.ReadyReplicas, *r.Spec.Replicas, since(begin))
	return nil
}

func (d *demo) waitWarm(ctx context.Context, r *corev1alpha1.Runtime) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return false, err
		}
		return r.Status.ReadyReplicas == *r.Spec.Replicas, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the Pods of runtime %s (status %+v): %w", r.Name, r.Status, err)
	}
	return nil
}

func readManifests(path string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the manifests: %w", err)
	}
	defer func() { _ = file.Close() }()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(o); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}
