//go:build s3

package main

import (
	"context"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/s3"
	"kruntimes.io/kruntimes/artifacts/stores"
)

// openBucket opens stores in buckets: this is runtimed-s3.
var openBucket stores.Opener = func(ctx context.Context, bucket stores.Bucket) (artifacts.Store, error) {
	store, err := s3.New(ctx, bucket)
	if err != nil {
		return nil, err
	}
	return store, nil
}

// becomeS3 has nothing to become.
func becomeS3() error { return stores.ErrNoDriver }
