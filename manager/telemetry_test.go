package manager

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/controllers/core"
)

// nodeServer is an API server with one Node. It counts how that is listed.
type nodeServer struct {
	mu    sync.Mutex
	lists map[string]int
}

func (s *nodeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Has("sendInitialEvents"): // an older server: clients list then
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
	case r.URL.Query().Has("watch"):
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
		s.count("metadata of " + r.URL.Path)
		fmt.Fprint(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"1"},"items":[
			{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"n","uid":"u","resourceVersion":"1"}}]}`)
	default:
		s.count("all of " + r.URL.Path)
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[
			{"metadata":{"name":"n","uid":"u","resourceVersion":"1"}}]}`)
	}
}

func (s *nodeServer) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[what]++
}

// TestOfNodesTheMetadataIsWatched starts the watches that the probes wait for, and those of the controllers.
func TestOfNodesTheMetadataIsWatched(t *testing.T) {
	api := &nodeServer{lists: map[string]int{}}
	server := httptest.NewServer(api)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(server.Close)
	t.Cleanup(cancel) // first: it ends the watches
	node := corev1.SchemeGroupVersion.WithKind("Node")
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(node, meta.RESTScopeRoot)
	var kinds []client.Object
	byObject := core.CacheByObject()
	for kind := range byObject {
		if _, isNode := kind.(*corev1.Node); isNode {
			kinds = append(kinds, kind)
			continue
		}
		delete(byObject, kind)
	}
	c, err := cache.New(&rest.Config{Host: server.URL}, cache.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper, ByObject: byObject})
	if err != nil {
		t.Fatal(err)
	}
	if err := startWatches(ctx, c, kinds); err != nil {
		t.Fatal(err)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(node)
	if _, err := c.GetInformer(ctx, metadata); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache was not filled")
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "n"}, metadata); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	if diff := cmp.Diff(map[string]int{"metadata of /api/v1/nodes": 1}, api.lists); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}
