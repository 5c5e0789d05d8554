package cli

import (
	"errors"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Explain turns an error into what a person reads: what went wrong, and on a second line what to do about it.
func Explain(f *Factory, err error) string {
	text := err.Error()
	hint := ""
	var hinted *HintError
	if errors.As(err, &hinted) {
		hint = hinted.Hint
	}
	var noCluster *NoClusterError
	var exit *ExitError
	switch {
	case errors.As(err, &noCluster):
	case errors.As(err, &exit) && exit.Code == ExitUsage:
	case IsUnreachable(err):
		text, hint = unreachable(f, err)
	case IsNotInstalled(err):
		text, hint = notInstalled(f, err)
	case apierrors.IsUnauthorized(err):
		text, hint = "the cluster does not accept the credentials: "+text, "log in again, or choose another user or context with --user or --context"
	}
	var b strings.Builder
	b.WriteString("krt: " + VisibleLines(text)) // it may quote what the cluster holds
	if hint != "" {
		b.WriteString("\nhint: " + strings.ReplaceAll(VisibleLines(hint), "`krt ", "`"+f.Name+" "))
	}
	return b.String()
}

// unreachable names the server that does not answer.
func unreachable(f *Factory, err error) (text, hint string) {
	cause := err
	var transport *url.Error
	if errors.As(err, &transport) {
		cause = transport.Err
	}
	server := "the cluster"
	if config, configErr := f.RESTConfig(); configErr == nil {
		server = "the cluster at " + config.Host
	}
	return server + " could not be reached: " + cause.Error(),
		"is it up? `" + f.Name + " dev status` tells about a local one; --kubeconfig and --context choose another"
}

// notInstalled tells what is missing: everything of ours, or one group that whoever installed kruntimes has not enabled.
func notInstalled(f *Factory, err error) (text, hint string) {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if missing := status.Status().Details; missing != nil && strings.HasSuffix(missing.Group, "."+corev1alpha1.GroupVersion.Group) {
			name, _, _ := strings.Cut(missing.Group, ".")
			return "group " + name + " is not enabled in this cluster: it does not know " + missing.Kind + "." + missing.Group,
				"ask whoever installed kruntimes to enable the group, or choose another cluster with --context"
		}
	}
	return "kruntimes is not installed in this cluster: it does not know Runs and Runtimes",
		"install it, choose another cluster with --context, or start a local one with `" + f.Name + " dev up`"
}

// IsNotInstalled tells whether err means that the API server does not know the kind at all. A missing object is not
// one: that answer is a Status of the API server, while this one is its answer for any path that it does not serve.
func IsNotInstalled(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
