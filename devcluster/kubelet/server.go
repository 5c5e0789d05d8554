package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"

	"kruntimes.io/kruntimes/devcluster/kubelet/containerlog"
)

// headerTimeout bounds how long a client may take for its request's head.
const headerTimeout = 10 * time.Second

// serve listens for the API server and returns the port. The channel delivers an error when serving ends too early.
func (k *Kubelet) serve(ctx context.Context) (port int32, served <-chan error, err error) {
	config, err := k.tlsConfig()
	if err != nil {
		return 0, nil, err
	}
	listener, err := net.Listen("tcp", podIP+":0")
	if err != nil {
		return 0, nil, fmt.Errorf("listening for the API server: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	mux.HandleFunc("/portForward/{namespace}/{pod}", refuse("a dev cluster forwards no ports: what its Pods listen on is on "+podIP+" of this machine already"))
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", refuse("a dev cluster cannot attach to a running process: use logs or exec"))
	server := &http.Server{
		Handler: mux, TLSConfig: config, ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return logr.NewContext(ctx, k.log) },
		// The streams of exec need HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	result := make(chan error, 1)
	k.running.Go(func() { result <- fmt.Errorf("serving the API server: %w", server.ServeTLS(listener, "", "")) })
	k.running.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	return int32(listener.Addr().(*net.TCPAddr).Port), result, nil
}

// refuse answers with the reason why the stand-in does not do something that a kubelet does.
func refuse(reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, reason, http.StatusNotImplemented) }
}

// tlsConfig lets in only clients that the cluster's own authority vouches for, and of these only the named ones: exec
// runs anything, and the port is open to every user of the machine.
func (k *Kubelet) tlsConfig() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(k.config.CertFile, k.config.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the serving certificate: %w", err)
	}
	authority, err := os.ReadFile(k.config.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("loading the clients' authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("loading the clients' authority: %s holds no certificate", k.config.ClientCAFile)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		MinVersion:   tls.VersionTLS12,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; !slices.Contains(k.config.ClientNames, name) {
				return fmt.Errorf("client %q is not let in", name)
			}
			return nil
		},
	}, nil
}

// findContainer answers the request itself when there is no such container.
func (k *Kubelet) findContainer(w http.ResponseWriter, r *http.Request) (*worker, view) {
	namespace, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	worker := k.find(namespace, pod)
	if worker == nil {
		http.Error(w, fmt.Sprintf("pod %q is not on this node", namespace+"/"+pod), http.StatusNotFound)
		return nil, view{}
	}
	v, found := worker.view(name)
	if !found {
		http.Error(w, fmt.Sprintf("container %q is not in pod %q", name, pod), http.StatusNotFound)
		return nil, view{}
	}
	return worker, v
}

func (k *Kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	options, previous, err := logOptions(r, k.clock.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	worker, v := k.findContainer(w, r)
	if worker == nil {
		return
	}
	chosen := v.run
	if previous && !v.betweenRuns { // between two runs, the last one is the previous one
		chosen = v.previous
	}
	name, pod := r.PathValue("container"), worker.name
	switch {
	case chosen == nil && previous:
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod), http.StatusBadRequest)
		return
	case chosen == nil:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, pod, v.waiting), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flusher{to: w, flush: http.NewResponseController(w).Flush}
	_ = out.flush() // a follower gets its headers before the first line
	if err := chosen.log.Read(r.Context(), options, out); err != nil && !errors.Is(err, errClientGone) {
		k.log.Error(err, "Could not read the container's log", "pod", worker.namespace+"/"+pod, "container", name)
	}
}

// errClientGone says that nobody reads any more.
var errClientGone = errors.New("the client has gone")

// flusher sends everything at once: a line is worth nothing while it is in a buffer.
type flusher struct {
	to    http.ResponseWriter
	flush func() error
}

func (f *flusher) Write(p []byte) (int, error) {
	n, err := f.to.Write(p)
	if err == nil {
		err = f.flush()
	}
	if err != nil {
		return n, errors.Join(errClientGone, err)
	}
	return n, nil
}

// logOptions reads what the API server sends for the options of `kubectl logs`.
func logOptions(r *http.Request, now time.Time) (o containerlog.ReadOptions, previous bool, err error) {
	query := r.URL.Query()
	flag := func(name string) bool {
		value := query.Get(name)
		on, parseErr := strconv.ParseBool(value)
		if value != "" && parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, parseErr))
		}
		return on
	}
	number := func(name string) *int64 {
		value := query.Get(name)
		if value == "" {
			return nil
		}
		n, parseErr := strconv.ParseInt(value, 10, 64)
		if parseErr != nil || n < 0 {
			err = errors.Join(err, fmt.Errorf("%s: %q is not a positive number", name, value))
		}
		return &n
	}
	o.Follow, o.Timestamps, previous = flag("follow"), flag("timestamps"), flag("previous")
	o.TailLines, o.LimitBytes = number("tailLines"), number("limitBytes")
	if seconds := number("sinceSeconds"); seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if since := query.Get("sinceTime"); since != "" {
		at, parseErr := time.Parse(time.RFC3339, since)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("sinceTime: %w", parseErr))
		}
		o.Since = at
	}
	return o, previous, err
}
