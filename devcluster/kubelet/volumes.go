package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// unsupportedError says that a Pod asks for something that only a real node has. Trying again is of no use.
type unsupportedError struct{ what string }

func (e *unsupportedError) Error() string { return e.what }

// volumes are the directories that stand in for the volumes of a Pod.
type volumes struct {
	sources
	pod *corev1.Pod
	dir string
}

// token is a ServiceAccount token that has to be renewed in time.
type token struct {
	file   string
	source corev1.ServiceAccountTokenProjection
	// renewAt is when four fifths of its life are over.
	renewAt time.Time
}

// prepare fills all volumes of the Pod and returns their directories, and the tokens to renew.
func (v volumes) prepare(ctx context.Context, now time.Time) (dirsByVolume map[string]string, tokens []*token, err error) {
	dirsByVolume = map[string]string{}
	for i := range v.pod.Spec.Volumes {
		volume := &v.pod.Spec.Volumes[i]
		dir := filepath.Join(v.dir, volume.Name)
		if volume.HostPath != nil {
			dirsByVolume[volume.Name] = volume.HostPath.Path
			continue
		}
		if claim := volume.PersistentVolumeClaim; claim != nil {
			if dirsByVolume[volume.Name], err = v.claimed(ctx, claim.ClaimName); err != nil {
				return nil, nil, fmt.Errorf("volume %s: %w", volume.Name, err)
			}
			continue
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, nil, fmt.Errorf("making volume %s: %w", volume.Name, err)
		}
		made, err := v.fill(ctx, volume, dir, now)
		if err != nil {
			return nil, nil, fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		tokens = append(tokens, made...)
		dirsByVolume[volume.Name] = dir
	}
	return dirsByVolume, tokens, nil
}

func (v volumes) fill(ctx context.Context, volume *corev1.Volume, dir string, now time.Time) ([]*token, error) {
	switch {
	case volume.EmptyDir != nil:
		return nil, nil
	case volume.ConfigMap != nil:
		data, err := v.configMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Optional)
		if err != nil {
			return nil, err
		}
		return nil, writeItems(dir, data, volume.ConfigMap.Items, volume.ConfigMap.DefaultMode)
	case volume.Secret != nil:
		data, err := v.secret(ctx, volume.Secret.SecretName, volume.Secret.Optional)
		if err != nil {
			return nil, err
		}
		return nil, writeItems(dir, data, volume.Secret.Items, volume.Secret.DefaultMode)
	case volume.DownwardAPI != nil:
		return nil, v.writeFields(dir, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		return v.project(ctx, volume.Projected, dir, now)
	default:
		return nil, &unsupportedError{"a dev cluster has no volumes of this kind: use emptyDir, persistentVolumeClaim, configMap, secret, projected, downwardAPI or hostPath"}
	}
}

// claimed returns the directory of the volume to which a claim is bound.
func (v volumes) claimed(ctx context.Context, name string) (string, error) {
	claim, err := v.client.CoreV1().PersistentVolumeClaims(v.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return "", fmt.Errorf("reading PersistentVolumeClaim %s: %w", name, err)
	case claim.Status.Phase != corev1.ClaimBound:
		return "", fmt.Errorf("PersistentVolumeClaim %s is %s, not Bound", name, claim.Status.Phase)
	}
	bound, err := v.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the volume of PersistentVolumeClaim %s: %w", name, err)
	case bound.Spec.ClaimRef == nil || bound.Spec.ClaimRef.UID != claim.UID:
		return "", fmt.Errorf("PersistentVolume %s is bound to another claim than %s", bound.Name, name)
	case bound.Spec.HostPath == nil:
		return "", &unsupportedError{fmt.Sprintf("a dev cluster has no volumes such as that of PersistentVolumeClaim %s: "+
			"use its default StorageClass, or a PersistentVolume with hostPath", name)}
	}
	return bound.Spec.HostPath.Path, nil
}

func (v volumes) project(ctx context.Context, projected *corev1.ProjectedVolumeSource, dir string, now time.Time) ([]*token, error) {
	var tokens []*token
	for _, source := range projected.Sources {
		var err error
		switch {
		case source.ServiceAccountToken != nil:
			t := &token{file: filepath.Join(dir, source.ServiceAccountToken.Path), source: *source.ServiceAccountToken}
			err = v.renew(ctx, t, now)
			tokens = append(tokens, t)
		case source.ConfigMap != nil:
			var data map[string][]byte
			if data, err = v.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Optional); err == nil {
				err = writeItems(dir, data, source.ConfigMap.Items, projected.DefaultMode)
			}
		case source.Secret != nil:
			var data map[string][]byte
			if data, err = v.secret(ctx, source.Secret.Name, source.Secret.Optional); err == nil {
				err = writeItems(dir, data, source.Secret.Items, projected.DefaultMode)
			}
		case source.DownwardAPI != nil:
			err = v.writeFields(dir, source.DownwardAPI.Items, projected.DefaultMode)
		default:
			err = &unsupportedError{"a dev cluster has no projected source of this kind"}
		}
		if err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// renew asks for a token that is bound to the Pod object, as a kubelet does: admission policies recognise the Pod by it,
// and it is void as soon as the Pod is deleted.
func (v volumes) renew(ctx context.Context, t *token, now time.Time) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: t.source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: v.pod.Name, UID: v.pod.UID},
	}}
	if t.source.Audience != "" {
		request.Spec.Audiences = []string{t.source.Audience}
	}
	issued, err := v.client.CoreV1().ServiceAccounts(v.namespace).CreateToken(ctx, v.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for a token of ServiceAccount %s: %w", v.pod.Spec.ServiceAccountName, err)
	}
	if err := writeAtomically(t.file, []byte(issued.Status.Token), 0o600); err != nil {
		return err
	}
	t.renewAt = now.Add(issued.Status.ExpirationTimestamp.Sub(now) * 4 / 5)
	return nil
}

// writeItems writes the chosen keys, or all of them when none is chosen.
func writeItems(dir string, data map[string][]byte, items []corev1.KeyToPath, defaultMode *int32) error {
	if len(items) == 0 {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok && data == nil { // optional and not there
			continue
		}
		if !ok {
			return fmt.Errorf("there is no key %s", item.Key)
		}
		if err := writeAtomically(filepath.Join(dir, item.Path), content, fileMode(item.Mode, defaultMode)); err != nil {
			return err
		}
	}
	return nil
}

func (v volumes) writeFields(dir string, items []corev1.DownwardAPIVolumeFile, defaultMode *int32) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return &unsupportedError{"resourceFieldRef is not available in a dev cluster"}
		}
		value, err := podField(v.pod, item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		if err := writeAtomically(filepath.Join(dir, item.Path), []byte(value), fileMode(item.Mode, defaultMode)); err != nil {
			return err
		}
	}
	return nil
}

func fileMode(mode, defaultMode *int32) os.FileMode {
	switch {
	case mode != nil:
		return os.FileMode(*mode) & os.ModePerm
	case defaultMode != nil:
		return os.FileMode(*defaultMode) & os.ModePerm
	default:
		return 0o644
	}
}

// writeAtomically replaces a file as a whole, so that a reader never sees half a token.
func writeAtomically(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("writing a volume: %w", err)
	}
	temporary := filepath.Join(filepath.Dir(path), "..new-"+filepath.Base(path))
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return fmt.Errorf("writing a volume: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing a volume: %w", err)
	}
	return nil
}

// podDirName is the short name of a Pod's directory: unix sockets lie below it, whose names may not be long.
func podDirName(uid types.UID) string {
	name := string(uid)
	return name[:min(len(name), 13)]
}
