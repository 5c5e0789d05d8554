package runtimed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/stores"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/garbage"
	"kruntimes.io/kruntimes/runtimed/runs"
	"kruntimes.io/kruntimes/runtimed/state"
	"kruntimes.io/kruntimes/runtimed/storehealth"
	"kruntimes.io/kruntimes/runtimed/transfer"
)

// artifactAccess is what CatArtifact needs of the runtimed beside it.
type artifactAccess struct {
	// Store is the artifact store.
	Store stores.Config `json:"store"`
	// NamespaceUID is the UID of the namespace; empty until it is known.
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
}

// openArtifacts opens the artifact store and looks after it until ctx ends; nil when there is none. Nothing waits for the
// store: neither its health nor its garbage is anything on which a Run, or the end of runtimed, depends.
func openArtifacts(ctx context.Context, opts Options, kept *state.Store, client *runs.Client) (*transfer.Mover, error) {
	if opts.Artifacts.Store == nil {
		return nil, nil
	}
	log := logr.FromContextOrDiscard(ctx).WithName("artifacts")
	store, err := stores.Open(ctx, *opts.Artifacts.Store, opts.Artifacts.OpenBucket)
	if err != nil {
		// Work that needs no store goes on. The condition of the Runtime says what is wrong.
		store = misconfigured{artifacts.NewStoreError("opening the artifact store", err.Error(), false, err)}
	}
	if err := saveAccess(kept, artifactAccess{Store: *opts.Artifacts.Store}); err != nil {
		return nil, err
	}
	health := storehealth.New(storehealth.Options{
		Pod: opts.Pod.Name, Check: store.Check, API: client, Interval: opts.Artifacts.SweepInterval, Retry: opts.Artifacts.Recheck,
		Random: rand.Float64, Clock: opts.Clock, Log: log,
	})
	sweeper := garbage.New(garbage.Options{
		Store: store, API: client, Interval: opts.Artifacts.SweepInterval, Grace: opts.Artifacts.SweepGrace,
		Random: rand.Float64, Clock: opts.Clock, Log: log,
	})
	// They end with ctx, unless the store does not answer: then they end with the process.
	go health.Run(ctx)
	go sweeper.Run(ctx)
	go completeAccess(ctx, opts, kept, client, log)
	return transfer.New(transfer.Options{
		Store: store, Limits: decision.ArtifactLimits{MaxBytes: opts.Artifacts.MaxBytes, MaxCount: opts.Artifacts.MaxCount},
		Patience: opts.Artifacts.Patience, Failed: health.Suspect, Worked: health.Worked, Clock: opts.Clock, Log: log,
	}), nil
}

// misconfigured is an artifact store that can never work. It says why.
type misconfigured struct{ err error }

var _ artifacts.Store = misconfigured{}

func (m misconfigured) Claim(context.Context, types.UID, artifacts.Owner) error { return m.err }

func (m misconfigured) Owner(context.Context, types.UID) (artifacts.Owner, error) {
	return artifacts.Owner{}, m.err
}

func (m misconfigured) Put(context.Context, artifacts.Object, io.Reader) (corev1alpha1.ArtifactRef, error) {
	return corev1alpha1.ArtifactRef{}, m.err
}

func (m misconfigured) Open(context.Context, corev1alpha1.ArtifactRef) (io.ReadCloser, error) {
	return nil, m.err
}

func (m misconfigured) Claims(context.Context) iter.Seq2[artifacts.Claim, error] {
	return func(yield func(artifacts.Claim, error) bool) { yield(artifacts.Claim{}, m.err) }
}

func (m misconfigured) Remove(context.Context, types.UID) error { return m.err }

func (m misconfigured) Check(context.Context) error { return m.err }

func saveAccess(kept *state.Store, access artifactAccess) error {
	text, err := json.Marshal(access)
	if err != nil {
		return fmt.Errorf("encoding the access to the artifact store: %w", err)
	}
	return kept.SaveArtifacts(string(text))
}

// completeAccess adds the UID of the namespace to what CatArtifact finds, once it is known.
func completeAccess(ctx context.Context, opts Options, kept *state.Store, client *runs.Client, log logr.Logger) {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
	for {
		uid, err := client.NamespaceUID(ctx)
		if err == nil {
			err = saveAccess(kept, artifactAccess{Store: *opts.Artifacts.Store, NamespaceUID: uid})
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Error(err, "Could not tell how artifacts are read yet")
		select {
		case <-opts.Clock.After(backoff.Step()):
		case <-ctx.Done():
			return
		}
	}
}

// Access is how CatArtifact comes to artifacts.
type Access struct {
	// State is the state directory of a runtimed whose store is opened.
	State string
	// OpenBucket opens stores in buckets. Nil: CatArtifact returns stores.ErrNoDriver for those.
	OpenBucket stores.Opener
}

// CatArtifact writes the bytes of an artifact to w: those of a file, or the archive of a directory. It opens the store as the
// runtimed does whose state directory it is given, and only what belongs to the namespace of that. The error says, too, when
// what was written is not what was stored.
func CatArtifact(ctx context.Context, by Access, ref corev1alpha1.ArtifactRef, w io.Writer) error {
	text, err := state.ReadArtifacts(by.State)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the Runtime of this Pod has no artifactStore")
	}
	if err != nil {
		return err
	}
	var access artifactAccess
	if err := json.Unmarshal([]byte(text), &access); err != nil {
		return fmt.Errorf("reading how the artifact store is opened: %w", err)
	}
	if access.NamespaceUID == "" {
		return errors.New("runtimed has not reached the API server yet: try again")
	}
	store, err := stores.Open(ctx, access.Store, by.OpenBucket)
	if err != nil {
		return fmt.Errorf("opening the artifact store: %w", err)
	}
	return cat(ctx, store, access.NamespaceUID, ref, w)
}

func cat(ctx context.Context, store artifacts.Store, namespace types.UID, ref corev1alpha1.ArtifactRef, w io.Writer) error {
	content, err := transfer.OpenOwned(ctx, store, namespace, ref)
	if err != nil {
		return err // It names the artifact.
	}
	_, err = io.Copy(w, content)
	if err := errors.Join(err, content.Close()); err != nil {
		return fmt.Errorf("reading artifact %q: %w", ref.Name, err)
	}
	return nil
}
