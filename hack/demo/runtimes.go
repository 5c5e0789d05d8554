package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

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

const runtimesFile = "examples/runtimes.yaml"

// applyRuntimes creates the example Runtimes, and waits until their Pods are warm.
func (d *demo) applyRuntimes(ctx context.Context) error {
	title("Creating the Runtimes of %s", runtimesFile)
	runtimes, err := readRuntimes(runtimesFile)
	if err != nil {
		return err
	}
	begin := time.Now()
	for _, r := range runtimes {
		if r.Name == "python" && !d.python {
			say("runtime %s left out: this machine has no python3", r.Name)
			continue
		}
		r.Namespace = d.namespace
		if err := d.client.Create(ctx, r); err != nil {
			return fmt.Errorf("creating runtime %s: %w", r.Name, err)
		}
		if err := d.waitWarm(ctx, r); err != nil {
			return err
		}
		say("runtime %s: %d of %d Pods ready after %s", r.Name, r.Status.ReadyReplicas, *r.Spec.Replicas, since(begin))
	}
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

func readRuntimes(path string) ([]*corev1alpha1.Runtime, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the Runtimes: %w", err)
	}
	defer func() { _ = file.Close() }()
	var runtimes []*corev1alpha1.Runtime
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		r := &corev1alpha1.Runtime{}
		switch err := decoder.Decode(r); {
		case errors.Is(err, io.EOF):
			return runtimes, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		case r.Kind == "Runtime":
			runtimes = append(runtimes, r)
		}
	}
}
