package track

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var runKind = Kind[*corev1alpha1.Run]{
	Name:    "Run",
	New:     func() *corev1alpha1.Run { return &corev1alpha1.Run{} },
	NewList: func() client.ObjectList { return &corev1alpha1.RunList{} },
}

func run(version string, phase corev1alpha1.RunPhase) *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "build", Namespace: "team", UID: "1", ResourceVersion: version},
		Status: corev1alpha1.RunStatus{Phase: phase}}
}

// stranger is another Run of the name.
func stranger(version string) *corev1alpha1.Run {
	other := run(version, corev1alpha1.RunPending)
	other.UID = types.UID("2")
	return other
}

// answer is what the API server says to one request.
type answer struct {
	// err refuses the request; expired does so with 410, inside of the watch that has begun.
	err     error
	expired bool
	// lasts is how long a watch stands before its events come, ends whether they are its last.
	lasts  time.Duration
	events []watch.Event
	ends   bool
	// version is that of a list, object what it holds.
	version string
	object  *corev1alpha1.Run
}

// server answers requests in turn, and takes down what was asked for. When it has no answer left, a watch never ends.
type server struct {
	asked   []string
	answers []answer
	began   time.Time
}

func (s *server) next(format string, args ...any) answer {
	s.asked = append(s.asked, fmt.Sprintf("%s ", time.Since(s.began))+fmt.Sprintf(format, args...))
	if len(s.answers) == 0 {
		return answer{}
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

// describe puts the options of a request into words.
func describe(verb string, opts []client.ListOption) string {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	l := o.AsListOptions()
	return fmt.Sprintf("%s %s %s from %q", verb, o.Namespace, l.FieldSelector, l.ResourceVersion)
}

func (s *server) client() client.WithWatch {
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			a := s.next("%s", describe("watch", opts))
			if a.err != nil {
				return nil, a.err
			}
			w := watch.NewFake()
			go func() {
				defer w.Stop()
				<-time.After(a.lasts)
				for _, event := range a.events {
					w.Action(event.Type, event.Object)
				}
				if a.expired {
					status := apierrors.NewResourceExpired("too old resource version").Status()
					w.Error(&status)
				} else if !a.ends {
					<-ctx.Done()
				}
			}()
			return w, nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			a := s.next("%s", describe("list", opts))
			list.SetResourceVersion(a.version)
			if a.object != nil {
				list.(*corev1alpha1.RunList).Items = []corev1alpha1.Run{*a.object}
			}
			return a.err
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			a := s.next("get %s", key)
			if a.object != nil {
				a.object.DeepCopyInto(object.(*corev1alpha1.Run))
			}
			return a.err
		},
	})
}

func changed(object runtime.Object) watch.Event {
	return watch.Event{Type: watch.Modified, Object: object}
}

func bookmark(version string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}}
}

func TestTrack(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old resource version")
	down := apierrors.NewServiceUnavailable("starting")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "runs"}, "", errors.New("no"))
	running, succeeded := run("950", corev1alpha1.RunRunning), run("1000", corev1alpha1.RunSucceeded)
	cases := map[string]struct {
		answers []answer
		// want are the sights up to that of a Run that has succeeded, or to the end.
		want      []string
		wantAsked []string
	}{
		"a version that is too old for a watch is replaced by that of a list": {
			answers: []answer{{err: expired}, {version: "900", object: run("5", corev1alpha1.RunScheduled)}, {lasts: time.Minute, events: []watch.Event{changed(succeeded)}}},
			want:    []string{"0s Scheduled", "1m0.1s Succeeded"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`, `0s list team metadata.name=build from ""`,
				`100ms watch team metadata.name=build from "900"`},
		},
		"and so is one of which the watch itself says so": {
			answers: []answer{{expired: true}, {version: "900", object: running}, {events: []watch.Event{changed(succeeded)}}},
			want:    []string{"0s Scheduled", "0s Running", "100ms Succeeded"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`, `0s list team metadata.name=build from ""`,
				`100ms watch team metadata.name=build from "900"`},
		},
		"steps that last long in a busy cluster do not make it slow": {
			answers: []answer{
				{lasts: 5 * time.Minute, expired: true}, {version: "100", object: run("5", corev1alpha1.RunScheduled)},
				{lasts: 5 * time.Minute, expired: true}, {version: "200", object: run("5", corev1alpha1.RunScheduled)},
				{lasts: 5 * time.Minute, expired: true}, {version: "300", object: run("5", corev1alpha1.RunScheduled)},
				{events: []watch.Event{changed(succeeded)}},
			},
			want: []string{"0s Scheduled", "15m0.3s Succeeded"},
			wantAsked: []string{
				`0s watch team metadata.name=build from "5"`, `5m0s list team metadata.name=build from ""`,
				`5m0.1s watch team metadata.name=build from "100"`, `10m0.1s list team metadata.name=build from ""`,
				`10m0.2s watch team metadata.name=build from "200"`, `15m0.2s list team metadata.name=build from ""`,
				`15m0.3s watch team metadata.name=build from "300"`,
			},
		},
		"a bookmark is where the next watch goes on": {
			answers: []answer{{events: []watch.Event{bookmark("700")}, ends: true}, {err: down}, {events: []watch.Event{changed(succeeded)}}},
			want:    []string{"0s Scheduled", "0s lost: starting", "100ms Succeeded"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`, `0s list team metadata.name=build from ""`,
				`100ms watch team metadata.name=build from "700"`},
		},
		"and so is what was seen last": {
			answers: []answer{{events: []watch.Event{changed(running)}, ends: true}, {err: down}, {events: []watch.Event{changed(succeeded)}}},
			want:    []string{"0s Scheduled", "0s Running", "0s lost: starting", "100ms Succeeded"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`, `0s list team metadata.name=build from ""`,
				`100ms watch team metadata.name=build from "950"`},
		},
		"who may not list gets the object": {
			answers:   []answer{{err: expired}, {err: forbidden}, {object: succeeded}},
			want:      []string{"0s Scheduled", "0s Succeeded"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`, `0s list team metadata.name=build from ""`, `0s get team/build`},
		},
		"an object that is gone": {
			answers:   []answer{{err: expired}, {version: "900"}},
			want:      []string{"0s Scheduled", "0s Scheduled, deleted", "0s end"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`, `0s list team metadata.name=build from ""`},
		},
		"another object of the name": {
			answers:   []answer{{events: []watch.Event{changed(stranger("900"))}}},
			want:      []string{"0s Scheduled", "0s Scheduled, deleted", "0s end"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`},
		},
		"who may not watch": {
			answers:   []answer{{err: forbidden}},
			want:      []string{"0s Scheduled", "0s error watching Run build: runs is forbidden: no", "0s end"},
			wantAsked: []string{`0s watch team metadata.name=build from "5"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: tc.answers, began: time.Now()}
				got := sights(t, s)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("sights (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantAsked, s.asked); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// sights are those up to that of a Run that has succeeded.
func sights(t *testing.T, s *server) []string {
	ctx, cancel := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer cancel()
	var got []string
	say := func(format string, args ...any) {
		got = append(got, time.Since(s.began).String()+" "+fmt.Sprintf(format, args...))
	}
	for sight := range runKind.Track(ctx, s.client(), clock.RealClock{}, run("5", corev1alpha1.RunScheduled)) {
		switch {
		case sight.Err != nil:
			say("error %v", sight.Err)
		case sight.Lost != nil:
			say("lost: %v", sight.Lost)
		case sight.Deleted:
			say("%s, deleted", sight.Object.Status.Phase)
		default:
			say("%s", sight.Object.Status.Phase)
		}
		if sight.Object.Status.Phase == corev1alpha1.RunSucceeded {
			return got
		}
	}
	say("end")
	return got
}

// A cluster that does not come back is given up at last.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{began: time.Now()}
		for range 100 {
			s.answers = append(s.answers, answer{err: apierrors.NewServiceUnavailable("starting")})
		}
		got := sights(t, s)
		want := []string{"0s Scheduled", "0s lost: starting", "1m1.3s lost: without success for 1m1s of 5m0s: starting",
			"2m1.3s lost: without success for 2m1s of 5m0s: starting", "3m1.3s lost: without success for 3m1s of 5m0s: starting",
			"4m1.3s lost: without success for 4m1s of 5m0s: starting", "5m1.3s error watching Run build, without success for 5m0s: starting", "5m1.3s end"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sights (-want +got):\n%s", diff)
		}
	})
}
