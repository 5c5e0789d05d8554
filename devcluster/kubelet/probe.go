package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eagerPeriod is how often a container is probed that has never been ready. A kubelet keeps to the period there too;
// being quicker only makes a cluster for trying things out more pleasant.
const eagerPeriod = 50 * time.Millisecond

// hostPort returns the port of the host that the run uses instead of a port of its own.
func (r *run) hostPort(port int32) (int32, error) {
	if free, ok := r.ports[port]; ok {
		return free, nil
	}
	listener, err := net.Listen("tcp", podIP+":0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	free := int32(listener.Addr().(*net.TCPAddr).Port)
	r.ports[port] = free
	return free, nil
}

// probe watches whether a run is ready, if its container has a readiness probe, until the run ends.
func (w *worker) probe(ctx context.Context, c *container, r *run) {
	ctx, r.endProbe = context.WithCancel(ctx)
	probe := c.spec.ReadinessProbe
	if probe == nil {
		return
	}
	check, err := newCheck(c.spec, probe, r)
	if err != nil {
		w.log.Error(err, "Cannot probe container", "container", c.spec.Name)
		return // it never becomes ready
	}
	w.kubelet.running.Go(func() {
		w.kubelet.watchReadiness(ctx, probe, check, func(ready bool) {
			w.post(func(*worker) {
				if c.run == r && c.running {
					c.ready = ready
				}
			})
		})
	})
}

// watchReadiness probes until ctx ends and tells of each change.
func (k *Kubelet) watchReadiness(ctx context.Context, probe *corev1.Probe, check func(context.Context) bool, tell func(bool)) {
	period := time.Duration(max(probe.PeriodSeconds, 1)) * time.Second
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	judge := verdict{success: max(probe.SuccessThreshold, 1), failure: max(probe.FailureThreshold, 1)}
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second
	everReady := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(wait):
		}
		attempt, cancel := context.WithTimeout(ctx, timeout)
		ok := check(attempt)
		cancel()
		if judge.add(ok) {
			tell(judge.ready)
			everReady = true
		}
		if wait = period; !everReady {
			wait = min(period, eagerPeriod)
		}
	}
}

// verdict turns single probes into readiness.
type verdict struct {
	success, failure int32 // how many in a row it takes
	ready            bool
	streak           int32 // of results that speak against ready
}

// add takes a result and tells whether it changed the verdict.
func (v *verdict) add(ok bool) (changed bool) {
	if ok == v.ready {
		v.streak = 0
		return false
	}
	v.streak++
	if ok && v.streak < v.success || !ok && v.streak < v.failure {
		return false
	}
	v.ready, v.streak = ok, 0
	return true
}

// newCheck returns the function that probes once.
func newCheck(c *corev1.Container, probe *corev1.Probe, r *run) (func(context.Context) bool, error) {
	switch {
	case probe.HTTPGet != nil:
		return httpCheck(c, probe.HTTPGet, r)
	case probe.TCPSocket != nil:
		address, err := probeAddress(c, probe.TCPSocket.Host, probe.TCPSocket.Port, r)
		return func(ctx context.Context) bool {
			connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			return err == nil && connection.Close() == nil
		}, err
	default:
		return nil, fmt.Errorf("a dev cluster knows only httpGet and tcpSocket probes")
	}
}

func httpCheck(c *corev1.Container, get *corev1.HTTPGetAction, r *run) (func(context.Context) bool, error) {
	address, err := probeAddress(c, get.Host, get.Port, r)
	if err != nil {
		return nil, err
	}
	scheme := strings.ToLower(string(get.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	url := scheme + "://" + address + "/" + strings.TrimPrefix(get.Path, "/")
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a kubelet does not verify either
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		for _, header := range get.HTTPHeaders {
			request.Header.Add(header.Name, header.Value)
		}
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode >= 200 && response.StatusCode < 400
	}, nil
}

// probeAddress returns where a probe goes: to the port of the host that was chosen for a port of the container.
func probeAddress(c *corev1.Container, host string, port intstr.IntOrString, r *run) (string, error) {
	number := port.IntVal
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = p.ContainerPort
			}
		}
	}
	if number <= 0 {
		return "", fmt.Errorf("container %s has no port %s", c.Name, port.String())
	}
	if free, ok := r.ports[number]; ok {
		number = free
	}
	if host == "" {
		host = podIP
	}
	return net.JoinHostPort(host, strconv.Itoa(int(number))), nil
}
