// Command olm-catalog does to a cluster what the catalog operator of OLM does once it has unpacked a bundle, with the code of OLM
// where that decides: which roles are made for a ClusterServiceVersion, and in which form objects of a bundle are created. So no
// registry is needed to install a bundle that lies in a directory. The operator "olm" itself is built from the same module.
//
//	olm-catalog crds                              the kinds of OLM
//	olm-catalog install NAMESPACE BUNDLE-DIR      namespace, OperatorGroup for all namespaces, and the bundle
//	olm-catalog uninstall NAMESPACE               ClusterServiceVersions and OperatorGroups of the namespace
//
// The cluster is that of KUBECONFIG.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a command waits for the cluster.
const patience = 3 * time.Minute

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "olm-catalog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	catalog := &catalog{client: c}
	switch {
	case len(args) == 1 && args[0] == "crds":
		return catalog.crds(ctx)
	case len(args) == 3 && args[0] == "install":
		return catalog.install(ctx, args[1], args[2])
	case len(args) == 2 && args[0] == "uninstall":
		return catalog.uninstall(ctx, args[1])
	default:
		return errors.New("want crds, install NAMESPACE BUNDLE-DIR or uninstall NAMESPACE")
	}
}

// object makes an unstructured object.
func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetAPIVersion(apiVersion)
	made.SetKind(kind)
	made.SetNamespace(namespace)
	made.SetName(name)
	return made
}
