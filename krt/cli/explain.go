package cli

import (
	"errors"
	"net/url"
	"strings"
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
	if IsUnreachable(err) && !errors.As(err, &noCluster) {
		text, hint = unreachable(f, err)
	}
	var b strings.Builder
	b.WriteString("krt: " + text)
	if hint != "" {
		b.WriteString("\nhint: " + hint)
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
