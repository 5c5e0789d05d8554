package devcluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// bareCluster is a cluster without parts.
func bareCluster(t *testing.T) *Cluster {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	state := t.TempDir()
	c := &Cluster{
		options: Options{StateDir: state, Clock: testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))},
		dirs:    dirs{state: state, sockets: state}, log: logr.Discard(), ctx: ctx, cancel: cancel, done: make(chan struct{}),
	}
	if err := os.MkdirAll(c.dirs.pki(), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestATokenIsRenewedInTime(t *testing.T) {
	cases := map[string]struct {
		life     time.Duration
		err      error
		readOnly bool
		wantWait time.Duration
		wantErr  string
	}{
		"at half of the life that was asked for":  {life: 24 * time.Hour, wantWait: 12 * time.Hour},
		"at half of the life that it was given":   {life: time.Hour, wantWait: 30 * time.Minute},
		"soon, when it is over already":           {life: -time.Second, wantWait: tokenRetry},
		"soon, when the API server refuses":       {err: errors.New("no"), wantWait: tokenRetry, wantErr: "asking for a token of ServiceAccount kruntimes-manager: no"},
		"soon, when it cannot be written to disk": {life: time.Hour, readOnly: true, wantWait: tokenRetry, wantErr: "keeping the token of ServiceAccount kruntimes-manager: writing "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := bareCluster(t)
			if tc.readOnly {
				if err := os.RemoveAll(c.dirs.pki()); err != nil {
					t.Fatal(err)
				}
			}
			api := fake.NewClientset()
			api.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
					Token: "secret", ExpirationTimestamp: metav1.NewTime(c.options.Clock.Now().Add(tc.life))}}, tc.err
			})
			wait, err := c.renewToken(t.Context(), api, component{part: PartManager, account: "kruntimes-manager"})
			if wait != tc.wantWait || !strings.HasPrefix(errorText(err), tc.wantErr) || (err != nil) != (tc.wantErr != "") {
				t.Errorf("renewToken() = %s, %v; want %s, %q", wait, err, tc.wantWait, tc.wantErr)
			}
			if content, err := os.ReadFile(c.dirs.token(PartManager)); tc.wantErr == "" && string(content) != "secret" {
				t.Errorf("the file holds %q (%v)", content, err)
			}
		})
	}
}

// TestNothingIsStartedOnceTheEndHasBegun asks for a new manager while the cluster ends: it would be left behind.
func TestNothingIsStartedOnceTheEndHasBegun(t *testing.T) {
	c := bareCluster(t)
	c.options.SeparateProcesses = true
	stopped := false
	c.parts = []*part{{Part: Part{Name: PartManager}, stop: func() { stopped = true }}}
	c.cancel(errStopped)
	if err := c.Crash(PartManager); !errors.Is(err, errStopped) {
		t.Errorf("Crash() = %v, want %v", err, errStopped)
	}
	if stopped || len(c.parts) != 1 {
		t.Errorf("the part was touched: %v", c.parts)
	}
}

// TestThePartsOfAClusterAreWatchedUntilItsEnd ends a part that was added after the start, as Crash adds one.
func TestThePartsOfAClusterAreWatchedUntilItsEnd(t *testing.T) {
	c := bareCluster(t)
	done := make(chan struct{})
	if err := c.add(&part{Part: Part{Name: PartScheduler}, done: done, err: func() error { return errors.New("exit status 1") }}); err != nil {
		t.Fatal(err)
	}
	close(done)
	select {
	case <-c.ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the end of a part went unnoticed")
	}
	var failure *PartError
	if !errors.As(context.Cause(c.ctx), &failure) || failure.Part != PartScheduler {
		t.Errorf("the cluster ends for %v, want a PartError of %s", context.Cause(c.ctx), PartScheduler)
	}
}

func TestTheLogOfAPartIsClosedWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, file, err := fileLogger(path)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("Said in time")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	log.Info("Said too late")
	if err := file.Close(); err == nil {
		t.Error("the file was still open")
	}
	content, err := os.ReadFile(path)
	if err != nil || strings.Count(string(content), "Said") != 1 {
		t.Errorf("the log holds %q (%v), want one line", content, err)
	}
}

func TestTheEnvironmentHasToBeGiven(t *testing.T) {
	options := Options{StateDir: t.TempDir()}
	if err := options.complete(); errorText(err) != "no environment to look variables up in" {
		t.Errorf("complete() = %v", err)
	}
}

// TestProgramsGetLittleOfTheEnvironment holds back what is in the shell of whoever starts a cluster, secrets for example.
func TestProgramsGetLittleOfTheEnvironment(t *testing.T) {
	c := &Cluster{options: Options{Environ: []string{"AWS_SECRET_ACCESS_KEY=x", "KUBECONFIG=/k", "HOME=/h", "GOGC=400", "PATH=/bin", "GODEBUG=x", "TMPDIR="}}}
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/h", "GOGC=400"}, c.childEnviron()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
