// Package bound is runtimed's view of the PersistentWorkspaces that are bound to its Pod: it reads them for those who want
// to use one, and removes those that are on their way out, with all that is in them.
package bound

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// requestTimeout bounds a single get or patch.
const requestTimeout = 10 * time.Second

// Client reads the PersistentWorkspaces of one namespace, and ends those of one Pod.
type Client struct {
	rest       rest.Interface
	parameters runtime.ParameterCodec
	namespace  string
}

// NewClient returns a Client for the namespace. config is not changed.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := workspacesv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &workspacesv1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	config.QPS = -1
	if config.UserAgent == "" {
		config.UserAgent = "kruntimes-runtimed"
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building the API client: %w", err)
	}
	return &Client{rest: client, parameters: runtime.NewParameterCodec(scheme), namespace: namespace}, nil
}

// Get reads a PersistentWorkspace from the API server's store.
func (c *Client) Get(ctx context.Context, name string) (*workspacesv1alpha1.PersistentWorkspace, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w := &workspacesv1alpha1.PersistentWorkspace{}
	err := c.rest.Get().Namespace(c.namespace).Resource(workspacesv1alpha1.Resource).Name(name).Do(ctx).Into(w)
	if err != nil {
		return nil, fmt.Errorf("reading PersistentWorkspace %s: %w", name, err)
	}
	return w, nil
}

// Finish removes the finalizer of a PersistentWorkspace, if it still is what it was when it was read.
func (c *Client) Finish(ctx context.Context, w *workspacesv1alpha1.PersistentWorkspace) error {
	left := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workspacesv1alpha1.Finalizer })
	if left == nil {
		left = []string{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion, "finalizers": left,
	}})
	if err != nil {
		return fmt.Errorf("building the patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = c.rest.Patch(types.MergePatchType).Namespace(c.namespace).Resource(workspacesv1alpha1.Resource).Name(w.Name).
		Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("removing the finalizer of PersistentWorkspace %s: %w", w.Name, err)
	}
	return nil
}

func selector(pod string) string {
	return fields.OneTermEqualSelector(workspacesv1alpha1.FieldBoundPod, pod).String()
}

func (c *Client) list(ctx context.Context, pod string, opts metav1.ListOptions) (runtime.Object, error) {
	opts.FieldSelector = selector(pod)
	list := &workspacesv1alpha1.PersistentWorkspaceList{}
	err := c.rest.Get().Namespace(c.namespace).Resource(workspacesv1alpha1.Resource).
		VersionedParams(&opts, c.parameters).Do(ctx).Into(list)
	return list, err
}

func (c *Client) watch(ctx context.Context, pod string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.FieldSelector = selector(pod)
	opts.Watch = true
	var timeout time.Duration
	if opts.TimeoutSeconds != nil {
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	return c.rest.Get().Namespace(c.namespace).Resource(workspacesv1alpha1.Resource).
		VersionedParams(&opts, c.parameters).Timeout(timeout).Watch(ctx)
}
