package manager

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/controllers/core"
)

// Bounds and defaults of Artifacts.
const (
	// maxArtifactBytes is the largest object of S3.
	maxArtifactBytes     = 5 << 40
	defaultArtifactBytes = 10 << 30

	minSweep                               = time.Second
	defaultSweepInterval, maxSweepInterval = time.Hour, 24 * time.Hour
	defaultSweepGrace, maxSweepGrace       = 15 * time.Minute, 168 * time.Hour
)

// Artifacts bounds what Runs keep in the artifact stores of Runtimes, and says how these are swept. New and changed Runtimes
// get what stands here; the Pods of the others stay as they are until their Runtime is changed or restarted.
type Artifacts struct {
	// MaxBytes bounds one artifact: a Run that leaves a larger one fails. From 1 byte to 5Ti. Default: 10Gi.
	MaxBytes *resource.Quantity `json:"maxBytes,omitempty"`
	// MaxCount bounds the artifacts of one Run: one that leaves more fails. From 1 to 32. Default: 32.
	MaxCount *int32 `json:"maxCount,omitempty"`
	// SweepInterval is how often each Pod looks for what Runs have left that are gone, and removes it. From 1s to 24h.
	// Default: 1h.
	SweepInterval *metav1.Duration `json:"sweepInterval,omitempty"`
	// SweepGrace is how old that has to be. From 1s to 168h. Default: 15m.
	SweepGrace *metav1.Duration `json:"sweepGrace,omitempty"`
}

// deepCopy returns one that shares nothing with a.
func (a Artifacts) deepCopy() Artifacts {
	if a.MaxBytes != nil {
		a.MaxBytes = new(a.MaxBytes.DeepCopy())
	}
	if a.MaxCount != nil {
		a.MaxCount = new(*a.MaxCount)
	}
	if a.SweepInterval != nil {
		a.SweepInterval = new(*a.SweepInterval)
	}
	if a.SweepGrace != nil {
		a.SweepGrace = new(*a.SweepGrace)
	}
	return a
}

// complete fills the defaults in.
func (a *Artifacts) complete() {
	if a.MaxBytes == nil {
		a.MaxBytes = resource.NewQuantity(defaultArtifactBytes, resource.BinarySI)
	}
	if a.MaxCount == nil {
		a.MaxCount = new(int32(corev1alpha1.MaxArtifacts))
	}
	if a.SweepInterval == nil {
		a.SweepInterval = &metav1.Duration{Duration: defaultSweepInterval}
	}
	if a.SweepGrace == nil {
		a.SweepGrace = &metav1.Duration{Duration: defaultSweepGrace}
	}
}

// validate says all that is wrong with a complete one.
func (a *Artifacts) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	most := resource.NewQuantity(maxArtifactBytes, resource.BinarySI)
	if bytes := a.MaxBytes; bytes.Sign() <= 0 || bytes.Cmp(*most) > 0 || bytes.Cmp(*resource.NewQuantity(bytes.Value(), resource.BinarySI)) != 0 {
		errs = append(errs, field.Invalid(path.Child("maxBytes"), bytes.String(), fmt.Sprintf("must be whole bytes from 1 to %s", most)))
	}
	if *a.MaxCount < 1 || *a.MaxCount > corev1alpha1.MaxArtifacts {
		errs = append(errs, field.Invalid(path.Child("maxCount"), *a.MaxCount, fmt.Sprintf("must be from 1 to %d", corev1alpha1.MaxArtifacts)))
	}
	for _, period := range []struct {
		field string
		value time.Duration
		most  time.Duration
	}{
		{"sweepInterval", a.SweepInterval.Duration, maxSweepInterval},
		{"sweepGrace", a.SweepGrace.Duration, maxSweepGrace},
	} {
		if period.value < minSweep || period.value > period.most {
			errs = append(errs, field.Invalid(path.Child(period.field), period.value.String(), fmt.Sprintf("must be from %s to %s", minSweep, period.most)))
		}
	}
	return errs
}

// artifactLimits is what the controller of Runtimes goes by.
func (c *Configuration) artifactLimits() core.ArtifactLimits {
	a := c.Artifacts
	return core.ArtifactLimits{
		MaxBytes: a.MaxBytes.Value(), MaxCount: *a.MaxCount, SweepInterval: a.SweepInterval.Duration, SweepGrace: a.SweepGrace.Duration,
	}
}
