package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kruntimes.io/kruntimes/config"
)

// input is everything that a bundle is made of.
type input struct {
	// base is what people wrote of the ClusterServiceVersion.
	base *unstructured.Unstructured
	// rendered are the objects of config/olm, samples those of config/samples.
	rendered, samples []*unstructured.Unstructured
	// icon is an SVG, scorecard the configuration of tests.
	icon, scorecard []byte
}

// read collects the input below the root of the tree.
func read(root string) (in input, err error) {
	path := func(name string) string { return filepath.Join(root, "config", filepath.FromSlash(name)) }
	base, err := os.ReadFile(path("manifests/bases/kruntimes.clusterserviceversion.yaml"))
	if err != nil {
		return in, err
	}
	bases, err := config.Objects(base)
	if err != nil {
		return in, err
	}
	if len(bases) != 1 {
		return in, fmt.Errorf("the base holds %d objects, want the ClusterServiceVersion", len(bases))
	}
	in.base = bases[0]
	if in.icon, err = os.ReadFile(path("manifests/icon.svg")); err != nil {
		return in, err
	}
	if in.scorecard, err = os.ReadFile(path("scorecard/config.yaml")); err != nil {
		return in, err
	}
	if in.rendered, err = render(path("olm")); err != nil {
		return in, err
	}
	in.samples, err = render(path("samples"))
	return in, err
}

// render builds a kustomization.
func render(dir string) ([]*unstructured.Unstructured, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	manifests, err := made.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", dir, err)
	}
	return config.Objects(manifests)
}
