package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FreeAddress is a loopback address that nobody listened on a moment ago.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("looking for a free port: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// MetricsReader makes a ServiceAccount that may read metrics and returns its token.
func (c *Cluster) MetricsReader(tb testing.TB, namespace, name string) (token string) {
	tb.Helper()
	token = c.ServiceAccount(tb, namespace, name).BearerToken
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kruntimes-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}}
	c.Create(tb, binding)
	tb.Cleanup(func() {
		if err := c.admin.Delete(context.WithoutCancel(tb.Context()), binding); err != nil {
			tb.Errorf("taking the right to read metrics back: %v", err)
		}
	})
	return token
}

// DeleteAll deletes all objects of a kind in all namespaces, whoever holds them: what other tests have left is counted as well
// as what a test makes itself.
func (c *Cluster) DeleteAll(tb testing.TB, kinds ...client.ObjectList) {
	tb.Helper()
	for _, list := range kinds {
		if err := c.admin.List(tb.Context(), list); err != nil {
			tb.Fatalf("listing %T: %v", list, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			object, ok := o.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", o)
			}
			if err := c.unhold(tb.Context(), object); err != nil {
				return err
			}
			return client.IgnoreNotFound(c.admin.Delete(tb.Context(), object, client.GracePeriodSeconds(0)))
		})
		if err != nil {
			tb.Fatalf("deleting %T: %v", list, err)
		}
	}
}

// Scrape asks for a page of a server, with a token where that is not empty, whatever the server's certificate is. It returns
// the status code and the page.
func Scrape(ctx context.Context, url, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	return response.StatusCode, string(page), err
}

// Metrics reads the metrics of a component, as soon as it serves them to the token: counters and gauges, and of a histogram how
// much it holds and the sum, as " sum", by their name and labels, such as "runs_total phase=Failed".
func Metrics(tb testing.TB, address, token string) map[string]float64 {
	tb.Helper()
	var page string
	Eventually(tb, "metrics on "+address, func(ctx context.Context) (bool, error) {
		code, body, err := Scrape(ctx, "https://"+address+"/metrics", token)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("code %d: %s", code, body)
		}
		page = body
		return err == nil, err
	})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		tb.Fatalf("parsing the metrics: %v", err)
	}
	values := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			key := name
			for _, label := range m.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				values[key] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				values[key] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				values[key], values[key+" sum"] = float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
			default:
			}
		}
	}
	return values
}

// Grown returns which of the values that begin with a prefix have grown, and by how much. All components of a process share
// what they count, and so do all tests.
func Grown(before, after map[string]float64, prefix string) map[string]float64 {
	grown := map[string]float64{}
	for name, value := range after {
		if strings.HasPrefix(name, prefix) && value != before[name] {
			grown[name] = value - before[name]
		}
	}
	return grown
}
