package server

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

func TestAdmit(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	first := &runtimev1.Hello{ProtocolVersion: 2}
	again := &runtimev1.Hello{ProtocolVersion: 2, Nonce: "n"}
	cases := map[string]struct {
		standing standing
		hello    *runtimev1.Hello
		same     bool
		code     codes.Code
	}{
		"the first server of the Pod":                {standing{lostAt: noon}, first, false, codes.OK},
		"nothing but Hello comes first":              {standing{lostAt: noon}, nil, false, codes.InvalidArgument},
		"another version":                            {standing{}, &runtimev1.Hello{ProtocolVersion: 3}, false, codes.FailedPrecondition},
		"a second one":                               {standing{connected: true, nonce: "n"}, first, false, codes.AlreadyExists},
		"a second one with the nonce":                {standing{connected: true, nonce: "n"}, again, false, codes.AlreadyExists},
		"back at once":                               {standing{nonce: "n", lostAt: noon}, again, true, codes.OK},
		"back after a long time":                     {standing{nonce: "n", lostAt: noon.Add(-time.Hour)}, again, true, codes.OK},
		"a guess":                                    {standing{nonce: "m", lostAt: noon.Add(-time.Hour)}, again, false, codes.PermissionDenied},
		"a nonce that was never given":               {standing{lostAt: noon.Add(-time.Hour)}, again, false, codes.PermissionDenied},
		"a stranger while the server may come back":  {standing{nonce: "n", lostAt: noon.Add(-time.Second)}, first, false, codes.PermissionDenied},
		"a new server when the old one did not come": {standing{nonce: "n", lostAt: noon.Add(-2 * time.Second)}, first, false, codes.OK},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			same, err := tc.standing.admit(tc.hello, noon, 2*time.Second)
			if same != tc.same || status.Code(err) != tc.code {
				t.Errorf("want %v and %v, got %v and %v", tc.same, tc.code, same, err)
			}
		})
	}
}
