package server

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// protocolVersion is the version of the contract that this package speaks.
const protocolVersion = 2

// standing is what is known about the runtime server when somebody knocks.
type standing struct {
	// connected tells that a stream is open, or about to be.
	connected bool
	// nonce is what the last admitted server was given; empty when there never was one.
	nonce string
	// lostAt is when the last admitted server's stream ended.
	lostAt time.Time
}

// admit decides who is at the door: the server that was here before (true), a new one (false), or somebody who is
// refused (a gRPC status error).
//
// Only the server that was admitted before knows the nonce. While it may still come back, nobody else is let in: user
// code that sees the stream break could otherwise take the server's place. When the container was restarted, which
// ends all of its user code as well, its new server is let in after the window.
func (s standing) admit(hello *runtimev1.Hello, now time.Time, window time.Duration) (bool, error) {
	switch {
	case hello == nil:
		return false, status.Error(codes.InvalidArgument, "the first message must be Hello")
	case hello.GetProtocolVersion() != protocolVersion:
		return false, status.Errorf(codes.FailedPrecondition,
			"protocol version %d is not supported, only %d", hello.GetProtocolVersion(), protocolVersion)
	case s.connected:
		return false, status.Error(codes.AlreadyExists, "a runtime server is connected")
	case hello.GetNonce() != "":
		if hello.GetNonce() != s.nonce {
			return false, status.Error(codes.PermissionDenied, "wrong nonce")
		}
		return true, nil
	case s.nonce == "" || now.Sub(s.lostAt) >= window:
		return false, nil
	default:
		return false, status.Error(codes.PermissionDenied, "the server that was connected may still come back")
	}
}
