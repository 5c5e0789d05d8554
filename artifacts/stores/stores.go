// Package stores opens the artifact store that a configuration names.
package stores

import (
	"context"
	"errors"
	"path/filepath"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/filesystem"
)

// Config names exactly one store.
type Config struct {
	// Directory is the root of a store in a file system. It must be absolute.
	Directory string `json:"directory,omitempty"`
	// S3 is a store in a bucket.
	S3 *Bucket `json:"s3,omitempty"`
}

// Bucket says where artifacts are kept in an S3-compatible service. It is not in package s3, which brings the SDK along: a
// process that keeps artifacts elsewhere, or none, does without.
type Bucket struct {
	// Bucket must exist.
	Bucket string `json:"bucket"`
	// Prefix is put before every key, with a slash after it. Default: none. Size: at most 700 bytes.
	Prefix string `json:"prefix,omitempty"`
	// Region of the bucket. Default: what the SDK finds, and us-east-1 where Endpoint is set.
	Region string `json:"region,omitempty"`
	// Endpoint is the URL of a service other than AWS. Default: AWS.
	Endpoint string `json:"endpoint,omitempty"`
	// ForcePathStyle puts the bucket into the path and not into the host name.
	ForcePathStyle bool `json:"forcePathStyle,omitempty"`
	// CredentialsDir holds the files accessKeyID, secretAccessKey and, where there is one, sessionToken. Default: the SDK's
	// own chain.
	CredentialsDir string `json:"credentialsDir,omitempty"`
}

// Opener opens a store in a bucket. Errors: a configuration that can never work.
type Opener func(ctx context.Context, bucket Bucket) (artifacts.Store, error)

// ErrNoDriver tells that this program cannot open stores in buckets.
var ErrNoDriver = errors.New("this program is built without the driver for S3")

var errOne = errors.New("configure exactly one artifact store: a directory or S3")

// Open returns the store of a configuration. It does not look whether it is there: that is for its Check. openBucket may be
// nil. Errors: a configuration that can never work; ErrNoDriver.
func Open(ctx context.Context, cfg Config, openBucket Opener) (artifacts.Store, error) {
	switch {
	case (cfg.Directory == "") == (cfg.S3 == nil):
		return nil, errOne
	case cfg.S3 != nil && openBucket == nil:
		return nil, ErrNoDriver
	case cfg.S3 != nil:
		return openBucket(ctx, *cfg.S3)
	case !filepath.IsAbs(cfg.Directory):
		return nil, errors.New("the directory of an artifact store must be absolute")
	}
	return filesystem.New(cfg.Directory), nil
}
