package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/config"
)

// TestMetricsAreReadAsTheMonitorsSay adds the components for the Prometheus operator and follows the rendered ServiceMonitors
// as Prometheus would, over new connections, while the certificates are renewed.
func TestMetricsAreReadAsTheMonitorsSay(t *testing.T) {
	startCertManager(t)
	objects := install(t, "prometheus", "metrics-certificate")
	r := &rotation{load: &load{T: t}}
	token := readerToken(t)
	for _, name := range []string{"manager", "scheduler"} {
		started := startDeployment(t, objects, "kruntimes-"+name, name)
		s := &scraper{T: t, address: started.addresses["metrics"], token: token}
		s.followMonitor(find(t, objects, "ServiceMonitor", "kruntimes-"+name))
		first := s.shown()
		stop := s.start()
		for i := range 2 {
			r.issue("kruntimes-" + name + "-metrics")
			await(t, fmt.Sprintf("renewal %d of %s", i+1, name), func() error {
				now, err := s.certificate(t.Context())
				if err == nil && now == first {
					err = errors.New("it is the certificate from before")
				}
				return err
			})
			first = s.shown()
		}
		stop()
		started.isRunning(t)
		t.Logf("%s was scraped %d times", name, s.scrapes.Load())
	}
}

// readerToken is what a Prometheus shows that may read metrics.
func readerToken(t *testing.T) string {
	t.Helper()
	shared.Create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kruntimes-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "prometheus"}}})
	return shared.ServiceAccount(t, metav1.NamespaceDefault, "prometheus").BearerToken
}

// scraper reads metrics as a ServiceMonitor says.
type scraper struct {
	*testing.T
	address, path, token string
	// secret and key hold the authority, serverName is what the certificate has to be for.
	secret, key, serverName string
	scrapes                 atomic.Int64
}

// followMonitor takes over what a monitor says about TLS.
func (s *scraper) followMonitor(monitor *unstructured.Unstructured) {
	s.Helper()
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	if err != nil || len(endpoints) != 1 {
		s.Fatalf("%s has %d endpoints: %v", monitor.GetName(), len(endpoints), err)
	}
	endpoint := endpoints[0].(map[string]any)
	text := func(fields ...string) string {
		found, _, _ := unstructured.NestedString(endpoint, fields...)
		if found == "" {
			s.Fatalf("%s says nothing in %v", monitor.GetName(), fields)
		}
		return found
	}
	s.path, s.serverName = text("path"), text("tlsConfig", "serverName")
	s.secret, s.key = text("tlsConfig", "ca", "secret", "name"), text("tlsConfig", "ca", "secret", "key")
	if _, insecure, _ := unstructured.NestedBool(endpoint, "tlsConfig", "insecureSkipVerify"); insecure {
		s.Errorf("%s checks no certificate", monitor.GetName())
	}
}

// certificate reads the metrics once, over a connection of its own, and returns the serial number of the certificate.
func (s *scraper) certificate(ctx context.Context) (serial string, err error) {
	secret := &corev1.Secret{}
	if err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: s.secret}, secret); err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[s.key]) {
		return "", fmt.Errorf("secret %s has no authority in %s", s.secret, s.key)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: s.serverName, MinVersion: tls.VersionTLS12}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+s.path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "kruntimes_") {
		return "", fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return response.TLS.PeerCertificates[0].SerialNumber.String(), nil
}

// shown waits for the first scrape that works.
func (s *scraper) shown() (serial string) {
	s.Helper()
	await(s.T, "the metrics", func() (err error) {
		serial, err = s.certificate(s.Context())
		return err
	})
	return serial
}

// start scrapes until the function that it returns is called: each time has to work.
func (s *scraper) start() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := s.certificate(s.Context()); err != nil {
				s.Errorf("scraping after %d times: %v", s.scrapes.Load(), err)
				return
			}
			s.scrapes.Add(1)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
