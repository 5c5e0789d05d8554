// Package stores opens the artifact store that a configuration names.
package stores

import (
	"context"
	"errors"
	"path/filepath"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/filesystem"
	"kruntimes.io/kruntimes/artifacts/s3"
)

// Config names exactly one store.
type Config struct {
	// Directory is the root of a store in a file system. It must be absolute.
	Directory string `json:"directory,omitempty"`
	// S3 is a store in a bucket.
	S3 *s3.Config `json:"s3,omitempty"`
}

var errOne = errors.New("configure exactly one artifact store: a directory or S3")

// Open returns the store of a configuration. It does not look whether it is there: that is for its Check. Errors: a
// configuration that can never work.
func Open(ctx context.Context, cfg Config) (artifacts.Store, error) {
	switch {
	case (cfg.Directory == "") == (cfg.S3 == nil):
		return nil, errOne
	case cfg.S3 != nil:
		store, err := s3.New(ctx, *cfg.S3)
		if err != nil {
			return nil, err
		}
		return store, nil
	case !filepath.IsAbs(cfg.Directory):
		return nil, errors.New("the directory of an artifact store must be absolute")
	}
	return filesystem.New(cfg.Directory), nil
}
