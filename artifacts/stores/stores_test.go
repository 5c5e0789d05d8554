package stores_test

import (
	"testing"

	"kruntimes.io/kruntimes/artifacts/s3"
	"kruntimes.io/kruntimes/artifacts/stores"
)

func TestOpen(t *testing.T) {
	for name, test := range map[string]struct {
		config stores.Config
		ok     bool
	}{
		"a directory":             {stores.Config{Directory: "/artifacts"}, true},
		"a bucket":                {stores.Config{S3: &s3.Config{Bucket: "bucket", Region: "r"}}, true},
		"nothing":                 {stores.Config{}, false},
		"both":                    {stores.Config{Directory: "/artifacts", S3: &s3.Config{Bucket: "bucket"}}, false},
		"a relative directory":    {stores.Config{Directory: "artifacts"}, false},
		"a bucket without a name": {stores.Config{S3: &s3.Config{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := stores.Open(t.Context(), test.config)
			if (err == nil) != test.ok || (store != nil) != test.ok {
				t.Errorf("got store %v and error %v, want ok: %t", store, err, test.ok)
			}
		})
	}
}
