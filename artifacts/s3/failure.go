package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

// failure tells what was not done, and why. Nil stays nil.
func failure(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	var content stream.ContentError
	if errors.As(err, &content) {
		return fmt.Errorf("%s: %w", doing, content.Unwrap())
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	return storeError(doing, err)
}

func storeError(doing string, err error) error {
	return artifacts.NewStoreError(doing, words(err), passing(err), err)
}

// missing is failure, where an object that is not there is ErrNotFound. A bucket that is not there is a failure.
func missing(ctx context.Context, doing string, err error) error {
	var said smithy.APIError
	if errors.As(err, &said) && (said.ErrorCode() == "NoSuchKey" || said.ErrorCode() == "NotFound") {
		return fmt.Errorf("%s: %w", doing, artifacts.ErrNotFound)
	}
	return failure(ctx, doing, err)
}

// unknown is the code that the SDK gives to answers that say nothing.
const unknown = "UnknownError"

// noise is what the SDK adds to the words of a service.
var noise = regexp.MustCompile(`operation error [^:]+: [^,]+, |(exceeded maximum number of attempts, \d+, )|(https response error )|` +
	`((RequestID|HostID): [^,]*, )`)

// words are what the service says, or what keeps it from being asked.
func words(err error) string {
	var late *slowError
	if errors.As(err, &late) {
		return late.Error()
	}
	var unreadable *credentialsError
	if errors.As(err, &unreadable) {
		return unreadable.Error()
	}
	status := statusOf(err)
	var said smithy.APIError
	if errors.As(err, &said) && said.ErrorCode() != unknown && said.ErrorMessage() != http.StatusText(status) {
		if said.ErrorMessage() == "" {
			return said.ErrorCode()
		}
		return said.ErrorCode() + ": " + said.ErrorMessage()
	}
	if status >= http.StatusBadRequest {
		return fmt.Sprintf("HTTP status %d %s", status, http.StatusText(status))
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		return sent.Err.Error()
	}
	return noise.ReplaceAllString(err.Error(), "")
}

// statusOf is the HTTP status that a service has answered with. Zero: it has not answered.
func statusOf(err error) int {
	var answered *smithyhttp.ResponseError
	if !errors.As(err, &answered) || answered.Response == nil || answered.Response.Response == nil {
		return 0
	}
	return answered.HTTPStatusCode()
}

// passing tells whether the same may succeed a little later.
func passing(err error) bool {
	var late *slowError
	if errors.As(err, &late) {
		return true
	}
	var unreadable *credentialsError
	if errors.As(err, &unreadable) {
		return false
	}
	var said smithy.APIError
	if errors.As(err, &said) {
		switch said.ErrorCode() {
		case "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "OperationAborted":
			return true
		}
	}
	if status := statusOf(err); status != 0 {
		return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
	}
	var network net.Error
	var sent *url.Error
	return errors.As(err, &network) || errors.As(err, &sent) || errors.Is(err, io.ErrUnexpectedEOF)
}
