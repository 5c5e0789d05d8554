package follow

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// ErrNoAttempt means that a Run has never had a Pod, so that there is no output.
var ErrNoAttempt = errors.New("the Run has no Pod")

// Read delivers what the log holds of the Run's present attempt, and does not wait for more. For a finished Run whose
// end is not in the log it returns a NoEndError.
func Read(ctx context.Context, o Options) error {
	a, assigned := attemptOf(o.Run)
	if !assigned {
		return ErrNoAttempt
	}
	r := o.reader(a)
	lines := &tail{}
	if o.Tail != nil {
		lines.lines = *o.Tail
		r.deliver = lines.add
	}
	var err error
	if o.Run.Status.Phase.IsTerminal() {
		var ended bool
		if ended, err = r.settle(ctx); !ended && err == nil {
			err = &NoEndError{Pod: a.pod}
		}
	} else if err = r.once(ctx, false); errors.Is(err, errEnded) {
		err = nil
	}
	return errors.Join(err, lines.flush(o.Sink.Write))
}

// ReadEarlier delivers what the logs hold of the attempt before the present one of a Run that has no Pod, and does not wait
// for more. The Run does not say any more where that attempt was made, so the Pods of its Runtime are asked one after the
// other. It returns the number of the attempt, and false when none of them knows of it.
func ReadEarlier(ctx context.Context, o Options) (number int32, found bool, err error) {
	number = o.Run.CurrentAttempt() - 1
	if number < 1 {
		return 0, false, nil
	}
	var pods corev1.PodList
	label := client.MatchingLabels{corev1alpha1.LabelRuntime: corev1alpha1.RuntimeLabelValue(o.Run.Spec.Runtime)}
	if err := o.Client.List(ctx, &pods, client.InNamespace(o.Run.Namespace), label); err != nil {
		return 0, false, fmt.Errorf("listing the Pods of Runtime %s: %w", o.Run.Spec.Runtime, err)
	}
	for i := range pods.Items {
		found, err := o.readFrom(ctx, &pods.Items[i], number)
		var gone *PodGoneError
		if errors.As(err, &gone) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) { // a container that has not started
			continue
		}
		if found || err != nil {
			return number, found, err
		}
	}
	return number, false, nil
}

// readFrom delivers what the log of a Pod holds of an attempt, and tells whether that is anything.
func (o Options) readFrom(ctx context.Context, pod *corev1.Pod, number int32) (found bool, err error) {
	r := o.reader(attempt{
		namespace: o.Run.Namespace, uid: string(o.Run.UID), number: number,
		pod: pod.Name, podUID: string(pod.UID), assigned: o.Run.CreationTimestamp.Time,
	})
	lines := &tail{}
	if o.Tail != nil {
		lines.lines = *o.Tail
		r.deliver = lines.add
	}
	err = r.once(ctx, false)
	ended := errors.Is(err, errEnded)
	if ended {
		err = nil
	}
	return ended || !r.cursor.last.IsZero(), errors.Join(err, lines.flush(o.Sink.Write))
}
