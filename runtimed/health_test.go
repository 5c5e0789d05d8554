package runtimed

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadiness(t *testing.T) {
	yes := func() (bool, string) { return true, "" }
	no := func(why string) func() (bool, string) { return func() (bool, string) { return false, why } }
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	cases := map[string]struct {
		ready readiness
		code  int
		body  string
	}{
		"all is well":     {readiness{open, []func() (bool, string){yes, yes}}, http.StatusOK, "ok\n"},
		"two problems":    {readiness{open, []func() (bool, string){no("a"), yes, no("b")}}, http.StatusServiceUnavailable, "a; b\n"},
		"at the very end": {readiness{closed, []func() (bool, string){yes}}, http.StatusServiceUnavailable, "shutting down\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			tc.ready.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			if answer.Code != tc.code || answer.Body.String() != tc.body {
				t.Errorf("want %d %q, got %d %q", tc.code, tc.body, answer.Code, answer.Body.String())
			}
		})
	}
}

func TestValidateNamesAllThatIsMissing(t *testing.T) {
	err := Run(t.Context(), Options{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, what := range []string{"POD_NAME", "POD_NAMESPACE", "POD_UID", "address", "--socket", "--scratch", "--state", "--interpreter"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("%s is not in: %v", what, err)
		}
	}
}
