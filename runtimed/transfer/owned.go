package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

// errForeign is the error of an artifact of another namespace. Nothing else is said about it.
var errForeign = errors.New("belongs to another namespace")

// partsOfPath are how many parts the path of an artifact has, below the root or prefix of its store.
const partsOfPath = 4

// OpenOwned opens an artifact that belongs to the namespace: an address is no authorization.
func OpenOwned(
	ctx context.Context, store artifacts.Store, namespaceUID types.UID, ref corev1alpha1.ArtifactRef,
) (io.ReadCloser, error) {
	content, err := store.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(ctx, store, namespaceUID, ref); err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return content, nil
}

func checkOwner(ctx context.Context, store artifacts.Store, namespaceUID types.UID, ref corev1alpha1.ArtifactRef) error {
	run, _, err := artifacts.ParsePath(pathOf(ref.Location))
	if err != nil {
		return err
	}
	owner, err := store.Owner(ctx, run)
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		return fmt.Errorf("nobody knows whose artifact %q is: %w", ref.Name, err)
	case err != nil:
		return err
	case owner.NamespaceUID != namespaceUID:
		return fmt.Errorf("artifact %q %w", ref.Name, errForeign)
	}
	return nil
}

// pathOf is the part of an address below the root or prefix of the store.
func pathOf(location corev1alpha1.ArtifactLocation) string {
	switch {
	case location.Filesystem != nil:
		return location.Filesystem.Path
	case location.S3 != nil:
		parts := strings.Split(location.S3.Key, "/")
		return strings.Join(parts[max(len(parts)-partsOfPath, 0):], "/")
	}
	return ""
}
