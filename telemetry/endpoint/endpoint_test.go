package endpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		options Options
		want    string
	}{
		"nothing":                        {},
		"off":                            {options: Options{Address: "0", Plain: true}},
		"over TLS, everywhere":           {options: Options{Address: ":8443"}},
		"with a certificate":             {options: Options{Address: ":8443", CertDir: "/certs"}},
		"plain, on loopback":             {options: Options{Address: "127.0.0.1:8080", Plain: true}},
		"plain, on loopback of IPv6":     {options: Options{Address: "[::1]:8080", Plain: true}},
		"plain, on loopback by its name": {options: Options{Address: "localhost:8080", Plain: true}},
		"plain, everywhere": {options: Options{Address: ":8080", Plain: true},
			want: "--metrics-plain: :8080 is not a loopback address: use 127.0.0.1, or let metrics be served over TLS"},
		"plain, to others": {options: Options{Address: "10.0.0.1:8080", Plain: true},
			want: "--metrics-plain: 10.0.0.1:8080 is not a loopback address: use 127.0.0.1, or let metrics be served over TLS"},
		"plain, with a certificate": {options: Options{Address: "127.0.0.1:8080", Plain: true, CertDir: "/certs"},
			want: "--metrics-cert-dir is of no use with --metrics-plain"},
		"no address": {options: Options{Address: "8443"}, want: "--metrics-address: address 8443: missing port in address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.options.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestServer(t *testing.T) {
	certs := t.TempDir()
	for _, name := range []string{certName, keyName} {
		if err := os.WriteFile(filepath.Join(certs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		options                   Options
		address                   string
		isSecure, isAsked, refuse bool
	}{
		"nothing is served nowhere":      {address: "0"},
		"over TLS, and it is asked who":  {options: Options{Address: ":8443"}, address: ":8443", isSecure: true, isAsked: true},
		"with a certificate":             {options: Options{Address: ":8443", CertDir: certs}, address: ":8443", isSecure: true, isAsked: true},
		"with a certificate that is not": {options: Options{Address: ":8443", CertDir: t.TempDir()}, refuse: true},
		"plain":                          {options: Options{Address: "127.0.0.1:1", Plain: true}, address: "127.0.0.1:1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.options.Server()
			if (err != nil) != tc.refuse {
				t.Fatalf("got error %v", err)
			}
			if got.BindAddress != tc.address || got.SecureServing != tc.isSecure || (got.FilterProvider != nil) != tc.isAsked || got.CertDir != tc.options.CertDir && !tc.refuse {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFlagsServeOverTLS(t *testing.T) {
	var got Options
	got.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	if want := (Options{Address: ":8443"}); got != want {
		t.Errorf("the flags' defaults are %+v, want %+v", got, want)
	}
}
