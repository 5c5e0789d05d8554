package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
)

// podIP is the address of every Pod: they share the network of the host, and listen on its loopback interface only.
const podIP = "127.0.0.1"

// sources reads what a Pod refers to.
type sources struct {
	client    kubernetes.Interface
	namespace string
}

// configMap returns the data of a ConfigMap, or nothing when it is optional and not there.
func (s sources) configMap(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, object.BinaryData)
	return data, nil
}

// secret returns the data of a Secret, or nothing when it is optional and not there.
func (s sources) secret(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	object, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return object.Data, nil
}

// environment is the environment of a container: base, which is the same for all, and what the container's env and
// envFrom say, with references resolved, variables expanded and paths translated.
func (s sources) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container, m mounts, base map[string]string) (map[string]string, error) {
	environ := maps.Clone(base)
	for _, from := range c.EnvFrom {
		data, err := s.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			if name := from.Prefix + key; len(validation.IsEnvVarName(name)) == 0 {
				environ[name] = m.translate(string(value))
			}
		}
	}
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			environ[variable.Name] = m.translate(expand(variable.Value, environ))
			continue
		}
		value, present, err := s.valueFrom(ctx, pod, variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if present {
			environ[variable.Name] = m.translate(value)
		}
	}
	return environ, nil
}

func (s sources) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case from.ConfigMapRef != nil:
		return s.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return s.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
	default:
		return nil, nil
	}
}

// valueFrom resolves one reference; present is false when it is optional and there is nothing.
func (s sources) valueFrom(ctx context.Context, pod *corev1.Pod, from *corev1.EnvVarSource) (value string, present bool, err error) {
	var (
		data     map[string][]byte
		key      string
		optional *bool
	)
	switch {
	case from.FieldRef != nil:
		value, err = podField(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		key, optional = from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
		data, err = s.configMap(ctx, from.ConfigMapKeyRef.Name, optional)
	case from.SecretKeyRef != nil:
		key, optional = from.SecretKeyRef.Key, from.SecretKeyRef.Optional
		data, err = s.secret(ctx, from.SecretKeyRef.Name, optional)
	default:
		return "", false, fmt.Errorf("this kind of reference is not available in a dev cluster")
	}
	if err != nil {
		return "", false, err
	}
	content, present := data[key]
	if !present && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("there is no key %s", key)
	}
	return string(content), present, nil
}

// podField returns a field of the Pod as the downward API gives it out.
func podField(pod *corev1.Pod, path string) (string, error) {
	if key, found := strings.CutPrefix(path, "metadata.labels['"); found {
		return pod.Labels[strings.TrimSuffix(key, "']")], nil
	}
	if key, found := strings.CutPrefix(path, "metadata.annotations['"); found {
		return pod.Annotations[strings.TrimSuffix(key, "']")], nil
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return podIP, nil
	default:
		return "", fmt.Errorf("field %s is not available in a dev cluster", path)
	}
}

func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(lines, "\n")
}

// expand replaces $(NAME) by the variable's value, as Kubernetes does: unknown names stay, $$ stands for one $.
func expand(text string, environ map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch end := strings.IndexByte(text[i:], ')'); {
		case text[i+1] == '$':
			out.WriteByte('$')
			i++
		case text[i+1] == '(' && end > 0:
			value, known := environ[text[i+2:i+end]]
			if !known {
				value = text[i : i+end+1]
			}
			out.WriteString(value)
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// list returns an environment in the form that a process takes, in a fixed order.
func list(environ map[string]string) []string {
	entries := make([]string, 0, len(environ))
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		entries = append(entries, name+"="+environ[name])
	}
	return entries
}
