// Package runs is runtimed's view of the API: the Runs assigned to its own Pod, the metadata of that Pod and of its
// namespace, one condition of its Runtime, and nothing else.
//
// It is built on the bare REST client with a scheme of one group, because client sets and caches would cost more memory
// than all of runtimed may use.
package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const (
	resource = "runs"
	// requestTimeout bounds a single get or patch.
	requestTimeout = 10 * time.Second
)

// Client reads and writes Runs of one namespace.
type Client struct {
	rest       rest.Interface
	parameters runtime.ParameterCodec
	namespace  string

	mu           sync.Mutex
	namespaceUID types.UID
}

// NewClient returns a Client for the namespace. config is not changed.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &corev1alpha1.GroupVersion
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

// Get reads a Run.
func (c *Client) Get(ctx context.Context, name string) (*corev1alpha1.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	run := &corev1alpha1.Run{}
	err := c.rest.Get().Namespace(c.namespace).Resource(resource).Name(name).Do(ctx).Into(run)
	if err != nil {
		return nil, fmt.Errorf("reading Run %s: %w", name, err)
	}
	return run, nil
}

// PatchStatus sends a merge patch, as statuspatch builds it, and returns what became of the Run.
func (c *Client) PatchStatus(ctx context.Context, name string, patch []byte) (*corev1alpha1.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	run := &corev1alpha1.Run{}
	err := c.rest.Patch(types.MergePatchType).Namespace(c.namespace).Resource(resource).Name(name).
		SubResource("status").Body(patch).Do(ctx).Into(run)
	if err != nil {
		return nil, fmt.Errorf("patching the status of Run %s: %w", name, err)
	}
	return run, nil
}

// partial asks for metadata instead of the whole object.
const partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Pod reads the metadata of a Pod. Nothing else of it is sent.
func (c *Client) Pod(ctx context.Context, name string) (*metav1.ObjectMeta, error) {
	pod, err := c.metadata(ctx, c.rest.Get().AbsPath("/api/v1").Namespace(c.namespace).Resource("pods").Name(name))
	if err != nil {
		return nil, fmt.Errorf("reading Pod %s: %w", name, err)
	}
	return pod, nil
}

// Namespace reads the metadata of the namespace.
func (c *Client) Namespace(ctx context.Context) (*metav1.ObjectMeta, error) {
	namespace, err := c.metadata(ctx, c.rest.Get().AbsPath("/api/v1").Resource("namespaces").Name(c.namespace))
	if err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	return namespace, nil
}

func (c *Client) metadata(ctx context.Context, request *rest.Request) (*metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := request.SetHeader("Accept", partial).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return &object.ObjectMeta, nil
}

func (c *Client) list(ctx context.Context, opts metav1.ListOptions) (*corev1alpha1.RunList, error) {
	list := &corev1alpha1.RunList{}
	err := c.rest.Get().Namespace(c.namespace).Resource(resource).
		VersionedParams(&opts, c.parameters).Do(ctx).Into(list)
	return list, err
}
