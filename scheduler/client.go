package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// requestTimeout bounds a read or write of one Run, on both sides: the API server gives a request up after it as well.
// It is shorter than the time between the end of a leader's term and the next one's start, so that no write of an old
// leader is under way when a new one has read the state.
const requestTimeout = 4 * time.Second

// partial asks for metadata instead of the whole object: a Run may hold a script of 256 KiB, and a bind needs to know
// nothing but the new resourceVersion.
const partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// runClient reads and writes single Runs with as few bytes as possible.
type runClient struct {
	rest rest.Interface
}

func newRunClient(config *rest.Config, scheme *runtime.Scheme) (*runClient, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion = &corev1alpha1.GroupVersion
	c.APIPath = "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("making the client for Runs: %w", err)
	}
	return &runClient{rest: client}, nil
}

// patchStatus sends a merge patch to the status of a Run, and returns the resourceVersion that this made. Nothing is
// sent once ctx has ended. A request that was sent is not cut off by that, so that on the way out no outcome is left open
// that can be had.
func (c *runClient) patchStatus(ctx context.Context, run types.NamespacedName, patch []byte) (version string, err error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("patching the status of Run %s: %w", run, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	body, err := c.rest.Patch(types.MergePatchType).
		Namespace(run.Namespace).Resource("runs").Name(run.Name).SubResource("status").
		Timeout(requestTimeout).SetHeader("Accept", partial).
		Body(patch).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("patching the status of Run %s: %w", run, err)
	}
	var stored metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &stored); err != nil {
		return "", fmt.Errorf("reading the answer on Run %s: %w", run, err)
	}
	return stored.ResourceVersion, nil
}

// get reads a Run from the API server's store.
func (c *runClient) get(ctx context.Context, run types.NamespacedName) (*corev1alpha1.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stored := &corev1alpha1.Run{}
	err := c.rest.Get().Namespace(run.Namespace).Resource("runs").Name(run.Name).
		Timeout(requestTimeout).Do(ctx).Into(stored)
	if err != nil {
		return nil, fmt.Errorf("reading Run %s: %w", run, err)
	}
	return stripRun(stored), nil
}

// activeRuns reads all Runs that have a Pod, page by page, from the API server's store.
func (c *runClient) activeRuns(ctx context.Context, page func([]corev1alpha1.Run)) error {
	const pageSize = 500
	next := ""
	for {
		list := &corev1alpha1.RunList{}
		err := c.rest.Get().Resource("runs").
			Param("fieldSelector", activeSelector().String()).
			Param("limit", strconv.Itoa(pageSize)).Param("continue", next).
			Do(ctx).Into(list)
		if err != nil {
			return fmt.Errorf("listing active Runs: %w", err)
		}
		page(list.Items)
		if next = list.Continue; next == "" {
			return nil
		}
	}
}
