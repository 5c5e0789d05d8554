package manager

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/controllers/workflows"
)

// configurationVersion is what apiVersion of a configuration file says, and configurationKind what kind does.
var configurationVersion = schema.GroupVersion{Group: "config.kruntimes.io", Version: "v1alpha1"}

const configurationKind = "ManagerConfiguration"

// minJobTTL and maxJobTTL bound the time to live of a job's workspace: between two steps of a job, and while a quota holds a
// step back, no Run uses it; and PersistentWorkspaces take no more. Unit: seconds.
const minJobTTL, maxJobTTL = 60, 315_360_000

// JobSelection says which jobs get a workspace.
type JobSelection string

const (
	// JobsAll are all jobs, save calls of Workflows.
	JobsAll JobSelection = "All"
	// JobsWithSeveralRuns are those of more than one Run.
	JobsWithSeveralRuns JobSelection = "WithSeveralRuns"
)

// Configuration is the content of the file that --config names: one YAML document of apiVersion config.kruntimes.io/v1alpha1
// and kind ManagerConfiguration. It is decoded strictly: a field that is unknown or given twice stops the manager.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	// JobWorkspaces says which jobs of WorkflowRuns share files between their steps, and where. It counts only with group
	// workflows.
	JobWorkspaces JobWorkspaces `json:"jobWorkspaces,omitempty"`
	// Artifacts says what Runs may keep in the artifact stores of Runtimes.
	Artifacts Artifacts `json:"artifacts,omitempty"`
}

// JobWorkspaces are the PersistentWorkspaces that the manager makes for the jobs of WorkflowRuns, and deletes at their end.
// What is changed here concerns workspaces that are made from then on.
type JobWorkspaces struct {
	// Jobs says which jobs get a workspace. Default: All. The steps of the others start in private directories.
	Jobs JobSelection `json:"jobs,omitempty"`
	// Mode says where the directory lies. Default, and the only one so far: RuntimePodLocal.
	Mode workspacesv1alpha1.WorkspaceMode `json:"mode,omitempty"`
	// CleanupPolicy says whether a workspace is deleted when nobody uses it, though its job has not ended. Default: Retain.
	CleanupPolicy workspacesv1alpha1.CleanupPolicy `json:"cleanupPolicy,omitempty"`
	// TTLSecondsAfterUnused is after which time that happens; a job that goes on later fails. Unit: seconds, from 60 to
	// 315,360,000 (10 years). Needed with cleanupPolicy DeleteAfterTTL, and not given with Retain.
	TTLSecondsAfterUnused *int32 `json:"ttlSecondsAfterUnused,omitempty"`
}

// DeepCopyObject makes a Configuration an object that can be decoded.
func (c *Configuration) DeepCopyObject() runtime.Object {
	out := *c
	if ttl := c.JobWorkspaces.TTLSecondsAfterUnused; ttl != nil {
		out.JobWorkspaces.TTLSecondsAfterUnused = new(*ttl)
	}
	out.Artifacts = c.Artifacts.deepCopy()
	return &out
}

// readConfiguration reads a file. An empty name stands for the defaults.
func readConfiguration(file string) (*Configuration, error) {
	c := &Configuration{TypeMeta: metav1.TypeMeta{APIVersion: configurationVersion.String(), Kind: configurationKind}}
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		if c, err = decodeConfiguration(raw); err != nil {
			return nil, fmt.Errorf("--config: %s: %w", file, err)
		}
	}
	c.complete()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("--config: %s: %w", file, err)
	}
	return c, nil
}

func decodeConfiguration(raw []byte) (*Configuration, error) {
	if err := refuseMore(raw); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(configurationVersion.WithKind(configurationKind), &Configuration{})
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode(raw, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err), runtime.IsMissingKind(err), runtime.IsMissingVersion(err):
		return nil, fmt.Errorf("it is not of apiVersion %s and kind %s: %w", configurationVersion, configurationKind, err)
	case err != nil:
		return nil, err
	}
	c, ok := object.(*Configuration)
	if !ok {
		return nil, fmt.Errorf("it is a %T", object) // never: the scheme knows one kind
	}
	return c, nil
}

// refuseMore refuses a second document, which would be left out without a word.
func refuseMore(raw []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for found := 0; ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF), err != nil && found == 0: // what is wrong with the first one, its decoding tells
			return nil
		case err != nil:
			return fmt.Errorf("after its first document: %w", err)
		}
		if found++; found > 1 {
			return fmt.Errorf("line %d: a second document begins: there may be one", document.Line)
		}
	}
}

// complete fills the defaults in.
func (c *Configuration) complete() {
	w := &c.JobWorkspaces
	w.Jobs = cmp.Or(w.Jobs, JobsAll)
	w.Mode = cmp.Or(w.Mode, workspacesv1alpha1.WorkspaceRuntimePodLocal)
	w.CleanupPolicy = cmp.Or(w.CleanupPolicy, workspacesv1alpha1.CleanupRetain)
	c.Artifacts.complete()
}

// validate reports all that is wrong at once.
func (c *Configuration) validate() error {
	return slices.Concat(c.JobWorkspaces.validate(field.NewPath("jobWorkspaces")), c.Artifacts.validate(field.NewPath("artifacts"))).ToAggregate()
}

func (w *JobWorkspaces) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if w.Jobs != JobsAll && w.Jobs != JobsWithSeveralRuns {
		errs = append(errs, field.NotSupported(path.Child("jobs"), w.Jobs, []JobSelection{JobsAll, JobsWithSeveralRuns}))
	}
	if w.Mode != workspacesv1alpha1.WorkspaceRuntimePodLocal {
		errs = append(errs, field.NotSupported(path.Child("mode"), w.Mode, []workspacesv1alpha1.WorkspaceMode{workspacesv1alpha1.WorkspaceRuntimePodLocal}))
	}
	at, ttl := path.Child("ttlSecondsAfterUnused"), w.TTLSecondsAfterUnused
	switch w.CleanupPolicy {
	case workspacesv1alpha1.CleanupRetain:
		if ttl != nil {
			errs = append(errs, field.Forbidden(at, "it counts only with cleanupPolicy DeleteAfterTTL"))
		}
	case workspacesv1alpha1.CleanupDeleteAfterTTL:
		if ttl == nil {
			errs = append(errs, field.Required(at, "cleanupPolicy DeleteAfterTTL needs it"))
		} else if *ttl < minJobTTL || *ttl > maxJobTTL {
			errs = append(errs, field.Invalid(at, *ttl, fmt.Sprintf("must be from %d to %d: a workspace has to outlive the time between two steps",
				minJobTTL, maxJobTTL)))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("cleanupPolicy"), w.CleanupPolicy,
			[]workspacesv1alpha1.CleanupPolicy{workspacesv1alpha1.CleanupDeleteAfterTTL, workspacesv1alpha1.CleanupRetain}))
	}
	return errs
}

// jobWorkspaces is what the controller of WorkflowRuns goes by.
func (c *Configuration) jobWorkspaces() *workflows.JobWorkspaces {
	w := c.JobWorkspaces
	return &workflows.JobWorkspaces{
		OnlySeveralRuns: w.Jobs == JobsWithSeveralRuns,
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{
			Mode: w.Mode, CleanupPolicy: w.CleanupPolicy, TTLSecondsAfterUnused: w.TTLSecondsAfterUnused,
		},
	}
}
