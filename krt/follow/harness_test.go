package follow

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

const (
	testNamespace = "team"
	testUID       = "11111111-2222-3333-4444-555555555555"
	otherUID      = "99999999-2222-3333-4444-555555555555"
)

// podLog is the log of one container: what has been written so far, and readers that wait for more.
type podLog struct {
	mu      sync.Mutex
	lines   []loggedLine
	closed  bool
	changed chan struct{}
	// faults are what happens to the connections, in the order of their opening.
	faults []fault
	// opened are the options of all connections.
	opened []corev1.PodLogOptions
}

type loggedLine struct {
	at   time.Time
	text []byte
}

// fault is what a connection suffers from. The zero value is a good connection.
type fault struct {
	// refuse is the error of the opening.
	refuse error
	// dropAfter cuts the connection after so many bytes.
	dropAfter int
	// delay goes by before the first byte.
	delay time.Duration
}

func newPodLog(faults ...fault) *podLog { return &podLog{changed: make(chan struct{}), faults: faults} }

func (l *podLog) write(records ...logrecord.Record) {
	for _, r := range records {
		var buf bytes.Buffer
		if err := r.Encode(&buf); err != nil {
			panic(err)
		}
		l.writeLine(r.Time, buf.Bytes())
	}
}

func (l *podLog) writeLine(at time.Time, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, loggedLine{at: at, text: text})
	close(l.changed)
	l.changed = make(chan struct{})
}

// close ends the log, as a container that exits does.
func (l *podLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.changed)
	l.changed = make(chan struct{})
}

// open is a PodLogs.
func (l *podLog) open(ctx context.Context, _, _ string, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var f fault
	if n := len(l.opened); n < len(l.faults) {
		f = l.faults[n]
	}
	l.opened = append(l.opened, *opts)
	if f.refuse != nil {
		return nil, f.refuse
	}
	return &podLogReader{log: l, ctx: ctx, opts: *opts, fault: f}, nil
}

type podLogReader struct {
	log     *podLog
	ctx     context.Context
	opts    corev1.PodLogOptions
	fault   fault
	next    int
	pending []byte
	sent    int
}

func (r *podLogReader) Read(p []byte) (int, error) {
	if r.fault.delay > 0 {
		select {
		case <-time.After(r.fault.delay):
			r.fault.delay = 0
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
	for {
		if r.fault.dropAfter > 0 && r.sent >= r.fault.dropAfter {
			return 0, io.ErrUnexpectedEOF
		}
		if len(r.pending) > 0 {
			n := copy(p, r.pending)
			if r.fault.dropAfter > 0 {
				n = min(n, r.fault.dropAfter-r.sent)
			}
			r.pending = r.pending[n:]
			r.sent += n
			return n, nil
		}
		r.log.mu.Lock()
		changed := r.log.changed
		if r.next < len(r.log.lines) {
			line := r.log.lines[r.next]
			r.next++
			if r.opts.SinceTime == nil || !line.at.Before(r.opts.SinceTime.Time) {
				r.pending = line.text
			}
			r.log.mu.Unlock()
			continue
		}
		over := r.log.closed || !r.opts.Follow
		r.log.mu.Unlock()
		if over {
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

func (r *podLogReader) Close() error { return nil }

// rec is a record of the followed Run's first attempt.
func rec(at time.Time, line string) logrecord.Record {
	return logrecord.Record{Time: at, Run: "build", UID: testUID, Attempt: 1, Stream: logrecord.Stdout}.WithBytes([]byte(line))
}

func endRec(at time.Time) logrecord.Record {
	return logrecord.Record{Time: at, Run: "build", UID: testUID, Attempt: 1, End: true}
}

// scene is a cluster with one Run and one Pod, and the follower's streams.
type scene struct {
	t           *testing.T
	client      client.WithWatch
	log         *podLog
	out, errOut lockedBuffer
	start       time.Time
	// last is the Run as it was changed last.
	last *corev1alpha1.Run
	// breakWatches makes every watch end by itself after so many events; 0 means never.
	breakWatches int
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newScene(t *testing.T, log *podLog) *scene {
	t.Helper()
	s := &scene{t: t, log: log, start: (clock.RealClock{}).Now()}
	run := &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{Name: "build", Namespace: testNamespace, UID: testUID, CreationTimestamp: metav1.NewTime(s.start)},
		Spec:       corev1alpha1.RunSpec{Runtime: "bash"},
		Status:     corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending},
	}
	s.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(run, testPod("pod-a", "uid-a")).
		WithStatusSubresource(&corev1alpha1.Run{}).Build(), interceptor.Funcs{Watch: s.watch})
	return s
}

func testPod(name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: testNamespace, UID: types.UID(uid)}}
}

// watch does what the fake client does not: it begins at the resource version that the caller has seen.
func (s *scene) watch(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	var lo client.ListOptions
	lo.ApplyOptions(opts)
	inner, err := c.Watch(ctx, list, opts...)
	if err != nil {
		return nil, err
	}
	run := &corev1alpha1.Run{}
	getErr := c.Get(ctx, client.ObjectKey{Namespace: testNamespace, Name: "build"}, run)
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer inner.Stop()
		sent := 0
		send := func(e watch.Event) bool {
			select {
			case events <- e:
				sent++
				return s.breakWatches == 0 || sent < s.breakWatches
			case <-ctx.Done():
			case <-proxy.StopChan():
			}
			return false
		}
		if apierrors.IsNotFound(getErr) && s.last != nil && !send(watch.Event{Type: watch.Deleted, Object: s.last}) {
			return
		}
		if getErr == nil && run.ResourceVersion != lo.Raw.ResourceVersion && !send(watch.Event{Type: watch.Modified, Object: run}) {
			return
		}
		for {
			select {
			case e, ok := <-inner.ResultChan():
				if !ok || !send(e) {
					return
				}
			case <-ctx.Done():
				return
			case <-proxy.StopChan():
				return
			}
		}
	}()
	return proxy, nil
}

func (s *scene) run() *corev1alpha1.Run {
	s.t.Helper()
	run := &corev1alpha1.Run{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: testNamespace, Name: "build"}, run); err != nil {
		s.t.Fatal(err)
	}
	s.last = run
	return run
}

// update changes the status of the Run.
func (s *scene) update(change func(*corev1alpha1.RunStatus)) {
	s.t.Helper()
	run := s.run()
	change(&run.Status)
	if err := s.client.Status().Update(s.t.Context(), run); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) assign(attempt int32, pod, uid string) {
	s.t.Helper()
	s.update(func(st *corev1alpha1.RunStatus) {
		st.Phase, st.Attempt, st.AssignedPod, st.AssignedPodUID = corev1alpha1.RunScheduled, attempt, pod, uid
		now := metav1.NewMicroTime(time.Now())
		st.ScheduledTime = &now
	})
}

func (s *scene) finish(phase corev1alpha1.RunPhase) {
	s.t.Helper()
	s.update(func(st *corev1alpha1.RunStatus) { st.Phase = phase })
}

func (s *scene) options() Options {
	s.t.Helper()
	return Options{Client: s.client, Logs: s.log.open, Clock: clock.RealClock{}, Run: s.run(),
		Sink: &Sink{Out: &s.out, Err: &s.errOut}}
}

// outcome is what a caller of Follow gets.
type outcome struct {
	result Result
	err    error
	took   time.Duration
}

// follow follows in the background.
func (s *scene) follow(ctx context.Context) <-chan outcome {
	s.t.Helper()
	done := make(chan outcome, 1)
	o, begun := s.options(), time.Now()
	go func() {
		result, err := Follow(ctx, o)
		done <- outcome{result: result, err: err, took: time.Since(begun)}
	}()
	return done
}

// talk returns what has been said on stderr, without the prefix of each line.
func (s *scene) talk() []string {
	text := strings.TrimSuffix(s.errOut.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(text, "krt: ", ""), "\n")
}

// pass lets time go by in the bubble of a test.
func pass(d time.Duration) { <-time.After(d) }
