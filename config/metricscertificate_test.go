package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// metricsTrust is all that has to agree for a scrape to be trusted.
type metricsTrust struct {
	Service, DNSName, ServerName               string
	CertificateSecret, MountedSecret, CASecret string
	CAKey, Argument, MountPath                 string
}

// TestMetricsCertificatesAreTheOnesThatAreChecked follows the names of the component, also when they are changed.
func TestMetricsCertificatesAreTheOnesThatAreChecked(t *testing.T) {
	cases := map[string]struct {
		change func(kustomization)
		prefix string
	}{
		"as it is":                 {unchanged, "kruntimes-"},
		"with another name prefix": {rename, "acme-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := parse(t, build(t, OverlayDefault, func(k kustomization) {
				tc.change(k)
				k.add("components", "../components/prometheus", "../components/metrics-certificate")
			}))
			for _, component := range []string{"manager", "scheduler"} {
				secret := "kruntimes-" + component + "-metrics-certificate"
				service := tc.prefix + component + "-metrics"
				want := metricsTrust{Service: service, DNSName: service, ServerName: service,
					CertificateSecret: secret, MountedSecret: secret, CASecret: secret,
					CAKey: "ca.crt", Argument: "--metrics-cert-dir=/certificates/metrics", MountPath: "/certificates/metrics"}
				if diff := cmp.Diff(want, metricsTrustOf(t, objects, tc.prefix+component)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", component, diff)
				}
			}
		})
	}
}

func metricsTrustOf(t *testing.T, objects []unstructured.Unstructured, name string) metricsTrust {
	t.Helper()
	var got metricsTrust
	if s := typed[corev1.Service](t, objects, "Service")[name+"-metrics"]; s != nil {
		got.Service = s.Name
	}
	for _, u := range objects {
		switch {
		case u.GetKind() == "Certificate" && u.GetName() == name+"-metrics":
			names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
			got.DNSName = slices.Max(append(names, ""))
			got.CertificateSecret, _, _ = unstructured.NestedString(u.Object, "spec", "secretName")
		case u.GetKind() == "ServiceMonitor" && u.GetName() == name:
			endpoints, _, _ := unstructured.NestedSlice(u.Object, "spec", "endpoints")
			endpoint, _ := endpoints[0].(map[string]any)
			got.ServerName, _, _ = unstructured.NestedString(endpoint, "tlsConfig", "serverName")
			got.CASecret, _, _ = unstructured.NestedString(endpoint, "tlsConfig", "ca", "secret", "name")
			got.CAKey, _, _ = unstructured.NestedString(endpoint, "tlsConfig", "ca", "secret", "key")
		}
	}
	pod := typed[appsv1.Deployment](t, objects, "Deployment")[name].Spec.Template.Spec
	for _, v := range pod.Volumes {
		if v.Name == "metrics-certificate" {
			got.MountedSecret = v.Secret.SecretName
		}
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.Name == "metrics-certificate" {
			got.MountPath = m.MountPath
		}
	}
	if i := slices.Index(pod.Containers[0].Args, "--metrics-cert-dir=/certificates/metrics"); i >= 0 {
		got.Argument = pod.Containers[0].Args[i]
	}
	return got
}
