package core

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/config"
	"kruntimes.io/kruntimes/devcluster/pki"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/telemetry/endpoint"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// serving makes a manager serve its metrics, and returns where.
func serving(t *testing.T, change ...func(*endpoint.Options)) (address string, option func(*manager.Options)) {
	t.Helper()
	address = cluster.FreeAddress(t)
	return address, func(o *manager.Options) {
		o.Metrics.Address = address
		for _, f := range change {
			f(&o.Metrics)
		}
	}
}

func TestMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	address, option := serving(t)
	startManager(t, option)
	ns := shared.Namespace(t)
	reader := shared.MetricsReader(t, ns, "reader")
	nobody := shared.ServiceAccount(t, ns, "nobody").BearerToken
	cluster.Metrics(t, address, reader) // It is served, and the right has taken effect.
	cases := map[string]struct {
		token string
		want  int
	}{
		"no token":               {"", http.StatusUnauthorized},
		"a token of nobody":      {"made.up.token", http.StatusInternalServerError}, // so the library answers
		"a token without rights": {nobody, http.StatusForbidden},
		"a token with the right": {reader, http.StatusOK},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, page, err := cluster.Scrape(t.Context(), "https://"+address+"/metrics", tc.token)
			if err != nil {
				t.Fatal(err)
			}
			if isShown := strings.Contains(page, "kruntimes_"); code != tc.want || isShown != (tc.want == http.StatusOK) {
				t.Errorf("got code %d, want %d, and metrics %t", code, tc.want, isShown)
			}
		})
	}
	if code, _, err := cluster.Scrape(t.Context(), "http://"+address+"/metrics", reader); err == nil && code == http.StatusOK {
		t.Error("metrics are served without TLS as well")
	}
}

func TestMetricsCanBePlainOnLoopback(t *testing.T) {
	address, option := serving(t, func(o *endpoint.Options) { o.Plain = true })
	startManager(t, option)
	cluster.Eventually(t, "metrics", func(ctx context.Context) (bool, error) {
		code, page, err := cluster.Scrape(ctx, "http://"+address+"/metrics", "")
		return code == http.StatusOK && strings.Contains(page, "kruntimes_run_finished_total"), err
	})
}

func TestMetricsUseTheCertificateThatIsGiven(t *testing.T) {
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server("metrics", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, option := serving(t, func(o *endpoint.Options) { o.CertDir = dir })
	startManager(t, option)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.CertPEM)
	cluster.Eventually(t, "the certificate", func(ctx context.Context) (bool, error) {
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: trusted}}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err == nil, err
	})
}

// timeouts counts the Runs by which awaitCounting sees that the manager counts.
const timeouts = "kruntimes_run_finished_total phase=Timeout reason=Timeout"

// awaitCounting ends Runs until the manager counts them: metrics are served before its controllers start.
func awaitCounting(t *testing.T, namespace string, pod *corev1.Pod, count func() float64) {
	t.Helper()
	first, made := count(), 0
	cluster.Eventually(t, "the manager to count", func(context.Context) (bool, error) {
		made++
		finish(t, created(t, namespace, fmt.Sprintf("marker-%d", made)), pod, map[string]any{"phase": "Timeout", "reason": "Timeout"})
		return count() > first, nil
	})
}

// TestRunsAreCounted counts what became of Runs since a manager has started, and not what was there before.
func TestRunsAreCounted(t *testing.T) {
	shared.DeleteAll(t, &corev1alpha1.RunList{})
	ns := shared.Namespace(t)
	token := shared.MetricsReader(t, ns, "reader")
	pod, leaves := shared.RuntimePod(t, ns, "sh", "stays"), shared.RuntimePod(t, ns, "sh", "a")
	finish(t, created(t, ns, "before"), pod, failed())
	address, option := serving(t)
	startManager(t, option)
	awaitCounting(t, ns, pod, func() float64 { return cluster.Metrics(t, address, token)[timeouts] })
	before := cluster.Metrics(t, address, token)
	scheduled, started, ended := time.Now().Add(time.Second), time.Now().Add(time.Second+20*time.Millisecond), time.Now().Add(3*time.Second)
	success := map[string]any{"phase": "Succeeded", "scheduledTime": stamp(scheduled), "startTime": stamp(started), "completionTime": stamp(ended)}
	finish(t, created(t, ns, "succeeded"), pod, success)
	finish(t, created(t, ns, "failed"), pod, failed())
	cancel(t, created(t, ns, "cancelled"))
	retried := retryRun(t, ns, "retried", time.Hour)
	assign(t, retried, leaves, "Running")
	shared.Delete(t, leaves)
	want := map[string]float64{
		"kruntimes_run_finished_total phase=Succeeded reason=":          1,
		"kruntimes_run_finished_total phase=Failed reason=ScriptFailed": 1,
		"kruntimes_run_finished_total phase=Cancelled reason=Cancelled": 1,
		"kruntimes_run_retries_total reason=RuntimePodLost":             1,
		"kruntimes_run_duration_seconds phase=Succeeded":                1,
		"kruntimes_run_duration_seconds phase=Failed":                   1,
		"kruntimes_run_duration_seconds phase=Cancelled":                1,
		"kruntimes_run_execution_seconds phase=Succeeded":               1,
		"kruntimes_run_starting_seconds":                                1,
		"kruntimes_run_scheduling_seconds":                              1,
	}
	sums := map[string]float64{}
	cluster.Eventually(t, "the figures", func(context.Context) (bool, error) {
		got := cluster.Grown(before, cluster.Metrics(t, address, token), "kruntimes_run_")
		for name, value := range got {
			if sum, ok := strings.CutSuffix(name, " sum"); ok {
				sums[sum] = value
				delete(got, name)
			}
			if strings.Contains(name, "phase=Timeout") { // the last markers
				delete(got, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return false, fmt.Errorf("figures (-want +got):\n%s", diff)
		}
		return true, nil
	})
	for name, want := range map[string]float64{
		"kruntimes_run_starting_seconds": .02, "kruntimes_run_execution_seconds phase=Succeeded": ended.Sub(started).Seconds(),
	} {
		if got := sums[name]; got < want-1e-3 || got > want+1e-3 {
			t.Errorf("%s: got %v s, want %v s", name, got, want)
		}
	}
	// Created and ended by the clocks of two processes, and seen by a third, all of this machine.
	if got := sums["kruntimes_run_duration_seconds phase=Succeeded"]; got < 2 || got > 3.5 {
		t.Errorf("the Run took %v s in all, want about 3", got)
	}
}

// TestAManagerIsReadyWithoutBeingTheLeader starts two, and one whose caches cannot be filled at first.
func TestAManagerIsReadyWithoutBeingTheLeader(t *testing.T) {
	var held atomic.Bool
	start := func(change ...func(*manager.Options)) (health string) {
		health = cluster.FreeAddress(t)
		startManager(t, append(change, func(o *manager.Options) {
			o.HealthAddress, o.LeaderElection, o.LeaderElectionNamespace = health, true, config.Namespace
		})...)
		return health
	}
	answers := func(health, path string, want int) {
		t.Helper()
		cluster.Eventually(t, fmt.Sprintf("code %d of %s", want, path), func(ctx context.Context) (bool, error) {
			code, page, err := cluster.Scrape(ctx, "http://"+health+path, "")
			if err == nil && code != want {
				err = fmt.Errorf("code %d: %s", code, page)
			}
			return err == nil, err
		})
	}
	answers(start(), "/readyz", http.StatusOK)
	answers(start(), "/readyz", http.StatusOK) // the first one has the Lease
	held.Store(true)
	third := start(func(o *manager.Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if held.Load() && strings.HasPrefix(r.URL.Path, "/apis/apps/v1/deployments") {
					return nil, cluster.ErrKilled
				}
				return next.RoundTrip(r)
			})
		})
	})
	answers(third, "/healthz", http.StatusOK)
	answers(third, "/readyz", http.StatusInternalServerError)
	held.Store(false)
	answers(third, "/readyz", http.StatusOK)
}
