package stores_test

import (
	"context"
	"errors"
	"testing"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/s3"
	"kruntimes.io/kruntimes/artifacts/stores"
)

func TestOpen(t *testing.T) {
	openBucket := func(ctx context.Context, bucket stores.Bucket) (artifacts.Store, error) {
		store, err := s3.New(ctx, bucket)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	for name, test := range map[string]struct {
		config stores.Config
		ok     bool
	}{
		"a directory":             {stores.Config{Directory: "/artifacts"}, true},
		"a bucket":                {stores.Config{S3: &stores.Bucket{Bucket: "bucket", Region: "r"}}, true},
		"nothing":                 {stores.Config{}, false},
		"both":                    {stores.Config{Directory: "/artifacts", S3: &stores.Bucket{Bucket: "bucket"}}, false},
		"a relative directory":    {stores.Config{Directory: "artifacts"}, false},
		"a bucket without a name": {stores.Config{S3: &stores.Bucket{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := stores.Open(t.Context(), test.config, openBucket)
			if (err == nil) != test.ok || (store != nil) != test.ok {
				t.Errorf("got store %v and error %v, want ok: %t", store, err, test.ok)
			}
		})
	}
	if _, err := stores.Open(t.Context(), stores.Config{S3: &stores.Bucket{Bucket: "bucket"}}, nil); !errors.Is(err, stores.ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
}
