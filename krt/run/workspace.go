package run

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kruntimes.io/kruntimes/krt/cli"
)

// useWebhook is the name of the webhook that decides who may execute in which workspace. A test compares it with what is
// installed.
const useWebhook = "workspace-use.kruntimes.io"

// refusalError says in words of its own what the API server says in longer ones.
type refusalError struct {
	text string
	err  error
}

func (e *refusalError) Error() string { return e.text }

// Unwrap returns the API server's error.
func (e *refusalError) Unwrap() error { return e.err }

// workspaceRefusal puts into words that the workspace is why the API server did not create a Run; nil when it is not.
func workspaceRefusal(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	message := status.Status().Message
	if why, isRefused := strings.CutPrefix(message, fmt.Sprintf("admission webhook %q denied the request: ", useWebhook)); isRefused {
		refusal := &refusalError{text: "the Run is refused: " + why, err: err}
		if apierrors.IsInvalid(err) {
			return cli.WithHint(refusal, "see which workspaces there are with `krt get workspaces`")
		}
		return refusal // It says what to do.
	}
	if strings.Contains(message, fmt.Sprintf("failed calling webhook %q", useWebhook)) {
		return cli.WithHint(&refusalError{text: "the Run is refused: nobody could be asked whether you may use the workspace: " + message, err: err},
			"the manager of kruntimes answers that: is it up? Runs without --workspace need no answer")
	}
	return nil
}
