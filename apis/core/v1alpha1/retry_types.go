package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetryPolicy says when a failed attempt is followed by another one. See retry.go for how it is read.
type RetryPolicy struct {
	// maxAttempts is the number of attempts in all, the first included. Default: 1, no retry. Bounds: 1 to 100.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// backoff is the wait between the end of the first attempt and the second; it doubles for each further one. A Go
	// duration of up to 8760h; 0s tries again at once. Default: 1s.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?m|[0-9]{1,9}([.][0-9]+)?s|[0-9]{1,12}([.][0-9]+)?ms|[0-9]{1,15}([.][0-9]+)?(us|µs)|[0-9]{1,18}([.][0-9]+)?ns)+$') && duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="backoff must be a duration of at least 0s and at most 8760h, such as 5s"
	Backoff *metav1.Duration `json:"backoff,omitempty"`

	// maxBackoff bounds the wait. A Go duration of up to 8760h. Default: 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?m|[0-9]{1,9}([.][0-9]+)?s|[0-9]{1,12}([.][0-9]+)?ms|[0-9]{1,15}([.][0-9]+)?(us|µs)|[0-9]{1,18}([.][0-9]+)?ns)+$') && duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="maxBackoff must be a duration of at least 0s and at most 8760h, such as 5m"
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`

	// retryOn lists the reasons of a failed attempt after which another one is made. Unset or empty: every reason but
	// Cancelled, which is never followed by another attempt.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(r, r == 'Cancelled')",message="a cancelled Run is never tried again: leave Cancelled out of retryOn"
	RetryOn []RunReason `json:"retryOn,omitempty"`
}
