package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/test/artifactstore"
	"kruntimes.io/kruntimes/test/s3server"
)

// request sends a presigned request: no digest of anything.
func request(b *testing.B, method, url string, content *os.File) (*http.Response, error) {
	b.Helper()
	var body io.Reader
	if content != nil {
		body = struct{ io.Reader }{content} // the request does not close it
	}
	req, err := http.NewRequestWithContext(b.Context(), method, url, body)
	must(b, err)
	if content != nil {
		info, err := content.Stat()
		must(b, err)
		req.ContentLength = info.Size()
	}
	answer, err := http.DefaultClient.Do(req)
	if err == nil && answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		err = fmt.Errorf("got status %s", answer.Status)
	}
	return answer, err
}

// BenchmarkPut compares with a plain request that sends the same file.
func BenchmarkPut(b *testing.B) {
	source, server := artifactstore.Source(b), s3server.Start(b)
	bucket := server.Bucket(b)
	signed, err := awss3.NewPresignClient(server.Client()).PresignPutObject(b.Context(), &awss3.PutObjectInput{
		Bucket: &bucket, Key: aws.String("plain"),
	})
	must(b, err)
	sent := func(io.Reader) error {
		answer, err := request(b, http.MethodPut, signed.URL, source)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	store := open(b, server.Config(b, bucket, ""))
	must(b, store.Claim(b.Context(), run, artifacts.Owner{Run: "r"}))
	stored := func(content io.Reader) error {
		_, err := store.Put(b.Context(), object("a"), content)
		return err
	}
	artifactstore.Compare(b, source, sent, stored)
}

// BenchmarkOpen compares with a plain request that gets the same file, both into a file that is on the disk at the end.
func BenchmarkOpen(b *testing.B) {
	source, server := artifactstore.Source(b), s3server.Start(b)
	bucket, file := server.Bucket(b), filepath.Join(b.TempDir(), "copy")
	store := open(b, server.Config(b, bucket, ""))
	must(b, store.Claim(b.Context(), run, artifacts.Owner{Run: "r"}))
	ref, err := store.Put(b.Context(), object("a"), source)
	must(b, err)
	signed, err := awss3.NewPresignClient(server.Client()).PresignGetObject(b.Context(), &awss3.GetObjectInput{
		Bucket: &bucket, Key: &ref.Location.S3.Key,
	})
	must(b, err)
	got := func(io.Reader) error {
		answer, err := request(b, http.MethodGet, signed.URL, nil)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return artifactstore.Write(file, answer.Body)
	}
	opened := func(io.Reader) error {
		r, err := store.Open(b.Context(), ref)
		if err != nil {
			return err
		}
		defer r.Close()
		return artifactstore.Write(file, r)
	}
	artifactstore.Compare(b, source, got, opened)
}
