package v1alpha1

// IsTerminal reports whether a WorkflowRun in phase p has ended.
func (p WorkflowPhase) IsTerminal() bool {
	return p == WorkflowSucceeded || p == WorkflowFailed || p == WorkflowCancelled
}

// IsTerminal reports whether a job in phase p has ended.
func (p JobPhase) IsTerminal() bool {
	return p == JobSucceeded || p == JobFailed || p == JobSkipped
}

// HasStarted reports whether a job in phase p has begun: it has a child, or could not go on when its turn came.
func (p JobPhase) HasStarted() bool {
	return p == JobRunning || p == JobSucceeded || p == JobFailed
}
