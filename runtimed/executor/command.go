package executor

import (
	"errors"
	"strconv"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/logrecord"
	"kruntimes.io/kruntimes/runtimed/outputs"
	"kruntimes.io/kruntimes/runtimed/staging"
)

// executionID names an attempt of a Run for the lifetime of the Pod.
func executionID(run *corev1alpha1.Run) string {
	return decision.ExecutionID(run.UID, run.CurrentAttempt())
}

// inlineScript returns the script of run; empty when it has none.
func inlineScript(run *corev1alpha1.Run) string {
	if run.Spec.Source == nil {
		return ""
	}
	return run.Spec.Source.Inline
}

// command says what the runtime server is to execute for run.
func command(
	run *corev1alpha1.Run, id, namespace string, interpreter []string, dir *staging.Directory,
) *runtimev1.Execute {
	var argv []string
	if inlineScript(run) != "" {
		argv = append(argv, interpreter...)
		argv = append(argv, dir.Script())
	}
	if run.Spec.Mode.Task != nil {
		argv = append(argv, run.Spec.Mode.Task.Args...)
	}
	env := []*runtimev1.EnvVar{
		{Name: "KRUNTIME_OUTPUTS", Value: dir.Outputs()},
		{Name: "KRUNTIME_ARTIFACTS_DIR", Value: dir.Artifacts()},
		{Name: "KRUNTIME_WORKSPACE", Value: dir.Work()},
		{Name: "KRUNTIME_RUN_NAME", Value: run.Name},
		{Name: "KRUNTIME_RUN_UID", Value: string(run.UID)},
		{Name: "KRUNTIME_NAMESPACE", Value: namespace},
		{Name: "KRUNTIME_ATTEMPT", Value: strconv.Itoa(int(run.CurrentAttempt()))},
		{Name: "HOME", Value: dir.Home()},
		{Name: "TMPDIR", Value: dir.Temp()},
	}
	for _, v := range run.Spec.Env {
		env = append(env, &runtimev1.EnvVar{Name: v.Name, Value: v.Value})
	}
	return &runtimev1.Execute{ExecutionId: id, Argv: argv, Env: env, WorkingDirectory: dir.Work()}
}

// named tells what an execution that cannot find its command could not find, and whether that is an interpreter that the
// Run did not name.
func named(run *corev1alpha1.Run, source program, interpreter []string) (command string, scripted bool) {
	switch {
	case source.interpreter != "":
		return source.interpreter, true
	case len(source.words) > 0:
		return source.words[0], false
	case inlineScript(run) != "":
		return interpreter[0], true
	default:
		return run.Spec.Mode.Task.Args[0], false
	}
}

// readOutputs returns the outputs that the script left, or why they cannot be had.
func readOutputs(dir *staging.Directory) (map[string]string, *decision.OutputsError) {
	var values map[string]string
	file, err := dir.ReadOutputs()
	if err == nil {
		values, err = outputs.Parse(file)
	}
	if err == nil {
		return values, nil
	}
	failure := &decision.OutputsError{Message: err.Error()}
	var known *outputs.Error
	if errors.As(err, &known) {
		failure.TooLarge = known.TooLarge
	}
	return nil, failure
}

// streamName translates the stream of the contract into that of a log record.
func streamName(stream runtimev1.OutputStream) string {
	if stream == runtimev1.OutputStream_OUTPUT_STREAM_STDERR {
		return logrecord.Stderr
	}
	return logrecord.Stdout
}
