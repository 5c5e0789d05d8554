package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The exit codes of krt. "krt run --follow" ends with the script's own code instead, and uses the last three.
const (
	// ExitOK means that krt did what it was asked to do.
	ExitOK = 0
	// ExitFailed means that the work failed: a Run did not succeed, or the API server refused the request.
	ExitFailed = 1
	// ExitUsage means that the command line is wrong; nothing was sent.
	ExitUsage = 2
	// ExitUnreachable means that the cluster could not be reached.
	ExitUnreachable = 3
	// ExitTimeout is what "krt run --follow" returns for a Run that ran into its timeout, as timeout(1) does.
	ExitTimeout = 124
	// ExitFollow is what "krt run --follow" returns for errors of krt itself, so that they differ from the script's.
	ExitFollow = 125
	// ExitInterrupted means that a person stopped it with ctrl-C, or that the followed Run was cancelled.
	ExitInterrupted = 130
)

// ExitError carries the exit code that belongs to an error. With a nil Err nothing is printed: all has been said.
type ExitError struct {
	// Code is the exit code.
	Code int
	// Err is what is printed; may be nil.
	Err error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error inside.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns an error about the command line itself.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// HintError is an error together with what to do about it.
type HintError struct {
	// Err is what went wrong.
	Err error
	// Hint is a sentence, without its final dot, that says what to do.
	Hint string
}

func (e *HintError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *HintError) Unwrap() error { return e.Err }

// WithHint adds what to do to an error. A nil error stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &HintError{Err: err, Hint: fmt.Sprintf(format, args...)}
}

// ExitCode returns the exit code for an error: the one table of krt.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case IsUnreachable(err):
		return ExitUnreachable
	default:
		return ExitFailed
	}
}

// IsUnreachable tells whether err means that no API server answered: no configuration that leads to one, no
// connection, no trusted certificate. An answer that refuses something is not one.
func IsUnreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsServiceUnavailable(err)
	}
	var noCluster *NoClusterError
	var transport *url.Error
	var network *net.OpError
	return errors.As(err, &noCluster) || errors.As(err, &transport) || errors.As(err, &network)
}

// NoClusterError means that there is no usable configuration that leads to a cluster.
type NoClusterError struct {
	// Reason says what is missing or wrong.
	Reason string
}

func (e *NoClusterError) Error() string { return e.Reason }

// MissingError means that there is no object of the name that the command line gave.
type MissingError struct {
	// Kind, Namespace and Name say which object was looked for.
	Kind            Kind
	Namespace, Name string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("there is no %s %q in namespace %q", e.Kind, e.Name, e.Namespace)
}

// IsMissing tells whether err means that the object that was asked for does not exist.
func IsMissing(err error) bool {
	var missing *MissingError
	return errors.As(err, &missing)
}

// Missing turns the API server's word that an object does not exist into a MissingError with a hint, and returns every
// other error as it is.
func Missing(err error, kind Kind, namespace, name string) error {
	if !apierrors.IsNotFound(err) || IsNotInstalled(err) {
		return err
	}
	return WithHint(&MissingError{Kind: kind, Namespace: namespace, Name: name},
		"see those there are with `krt get %s -n %s`, or with -A those of all namespaces", kind.Plural(), namespace)
}
