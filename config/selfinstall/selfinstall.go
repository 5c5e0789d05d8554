// Package selfinstall holds what a manager looks after itself where its installer cannot: a bundle for OLM holds no admission
// policies and no FlowSchemas. It is generated from config/olm, under the names that config/default has, and holds no kustomize:
// that would make the manager nearly twice as large.
package selfinstall

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// ClusterRoles are the names of those that the bundle holds beside the rights of manager and scheduler. OLM leaves them behind
// when the bundle is removed, unless something owns them.
var ClusterRoles = []string{
	"kruntimes-edit", "kruntimes-metrics-reader", "kruntimes-runtimed", "kruntimes-view", "kruntimes-workspace-user",
}

//go:embed policies.yaml
var policies []byte

// Policies returns the admission policies, their bindings and the FlowSchema of an installation with all groups. Every field that
// the API server would fill in is there, so that what is stored can be compared with them.
func Policies() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(policies)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the policies: %w", err)
		}
		object := &unstructured.Unstructured{}
		raw, err := utilyaml.ToJSON(document)
		if err == nil {
			err = object.UnmarshalJSON(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("decoding policy %d: %w", len(all), err)
		}
		all = append(all, object)
	}
}
