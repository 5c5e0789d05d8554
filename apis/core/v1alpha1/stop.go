package v1alpha1

import "time"

// StopGrace is how long an execution has between SIGTERM and SIGKILL when its Run is cancelled, deleted or out of time.
const StopGrace = 10 * time.Second
