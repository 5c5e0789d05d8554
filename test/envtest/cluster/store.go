package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// storedAs are the resources that the API server keeps under another name than that of their API.
var storedAs = map[string]string{"nodes": "minions"}

// Store puts an object into etcd as it is, past the API server: with its UID, times and status, as another version of kruntimes
// has left it. It ends the test where that fails.
func (c *Cluster) Store(tb testing.TB, object *unstructured.Unstructured) {
	tb.Helper()
	kind := object.GroupVersionKind()
	mapping, err := c.admin.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		tb.Fatalf("finding the resource of %s: %v", kind, err)
	}
	resource := mapping.Resource.Resource
	if name, ok := storedAs[resource]; ok {
		resource = name
	}
	parts := []string{"/registry"}
	if strings.Contains(kind.Group, "kruntimes.io") { // custom resources lie below their group
		parts = append(parts, kind.Group)
	}
	parts = append(parts, resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		parts = append(parts, object.GetNamespace())
	}
	value, err := json.Marshal(object.Object)
	if err == nil {
		// The API server ends what it stores with a line break; without, the next update of the same object would be a write.
		err = c.put(tb, path.Join(append(parts, object.GetName())...), append(value, '\n'))
	}
	if err != nil {
		tb.Fatalf("storing %s %s: %v", kind.Kind, object.GetName(), err)
	}
}

// put writes a key through etcd's JSON gateway, so that no client of etcd is needed.
func (c *Cluster) put(tb testing.TB, key string, value []byte) error {
	tb.Helper()
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return err
	}
	address := c.env.ControlPlane.Etcd.URL.JoinPath("v3/kv/put").String()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("etcd answers %s: %s", response.Status, text)
	}
	return nil
}
