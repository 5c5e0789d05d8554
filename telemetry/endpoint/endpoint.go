// Package endpoint says where and how a component serves its metrics: over TLS, to those whom the API server lets read
// them.
package endpoint

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Off is the address of what is not served: metrics, and also probes.
const Off = "0"

const (
	// defaultAddress is the default of the flag, for components in a cluster.
	defaultAddress = ":8443"
	// certName and keyName are the files of a certificate, as Kubernetes and cert-manager name them.
	certName, keyName = "tls.crt", "tls.key"
)

// Options say where and how /metrics is served. The zero value serves nothing.
type Options struct {
	// Address is where metrics are served. Empty or "0": nowhere.
	Address string
	// Plain serves without TLS, to anybody who asks. It is refused unless Address is a loopback address.
	Plain bool
	// CertDir holds the server's certificate and key, tls.crt and tls.key, which are read again when they change.
	// Empty: a certificate that is made at the start and signed by nobody.
	CertDir string
}

// AddFlags makes the options settable on a command line, with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Address, "metrics-address", defaultAddress, "`Address` to serve metrics on, over TLS and to those who may read them; 0 for nowhere")
	flags.BoolVar(&o.Plain, "metrics-plain", false, "Serve metrics without TLS and to anybody; for loopback addresses only")
	flags.StringVar(&o.CertDir, "metrics-cert-dir", "", "`Directory` with tls.crt and tls.key for the metrics (default: a self-signed certificate)")
}

// Validate reports all that is wrong at once.
func (o *Options) Validate() error {
	var errs []error
	if o.isOff() {
		return nil
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		errs = append(errs, fmt.Errorf("--metrics-address: %w", err))
	}
	if o.Plain && err == nil && !isLoopback(host) {
		errs = append(errs, fmt.Errorf("--metrics-plain: %s is not a loopback address: use 127.0.0.1, or let metrics be served over TLS", o.Address))
	}
	if o.Plain && o.CertDir != "" {
		errs = append(errs, errors.New("--metrics-cert-dir is of no use with --metrics-plain"))
	}
	return errors.Join(errs...)
}

// Server returns the options of the server. It fails where CertDir lacks a certificate: another one that nobody expects
// would be used in its place.
func (o *Options) Server() (server.Options, error) {
	if o.isOff() {
		return server.Options{BindAddress: Off}, nil
	}
	if o.Plain {
		return server.Options{BindAddress: o.Address}, nil
	}
	if o.CertDir != "" {
		for _, name := range []string{certName, keyName} {
			if _, err := os.Stat(filepath.Join(o.CertDir, name)); err != nil {
				return server.Options{}, fmt.Errorf("looking for the certificate of the metrics: %w", err)
			}
		}
	}
	return server.Options{
		BindAddress: o.Address, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		CertDir: o.CertDir, CertName: certName, KeyName: keyName,
		// A scrape needs no HTTP/2, which has more to attack.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}, nil
}

func (o *Options) isOff() bool { return o.Address == "" || o.Address == Off }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
