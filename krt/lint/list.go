package lint

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// items returns the objects of a list, as kubectl creates them, each with its own place in the file; of every other document,
// the document itself. Lists in lists are not looked into.
func (d *Document) items() ([]Document, []Finding) {
	kind := d.Object.GetKind()
	if !strings.HasSuffix(kind, "List") || !d.Object.IsList() && kind != "List" {
		return []Document{*d}, nil
	}
	place, exact := d.find("items")
	list, _ := d.Object.Object["items"].([]any)
	if !exact || place.value.Kind != yaml.SequenceNode || len(list) != len(place.value.Content) {
		return nil, []Finding{d.at(place.node(), fmt.Sprintf("a %s needs items, a list of manifests that are written out: nothing in it was checked", kind))}
	}
	var documents []Document
	var findings []Finding
	for i, item := range list {
		node := place.value.Content[i]
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		object, isObject := item.(map[string]any)
		if !isObject {
			findings = append(findings, d.at(node, "a manifest is a mapping with apiVersion, kind and more, and this is none"))
			continue
		}
		inside := Document{Object: &unstructured.Unstructured{Object: object}, file: d.file, lines: d.lines, first: d.first, root: node}
		if strings.HasSuffix(inside.Object.GetKind(), "List") && inside.Object.IsList() {
			findings = append(findings, d.at(node, "a list within a list is not looked into: move its items to the list around it"))
			continue
		}
		documents = append(documents, inside)
	}
	return documents, findings
}
