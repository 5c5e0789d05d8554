package s3

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/artifacts"
)

// Remove removes everything of a Run: first what is being uploaded, so that it does not appear afterwards, owner.json last.
func (s *Store) Remove(ctx context.Context, run types.UID) error {
	doing := fmt.Sprintf("removing the artifacts of Run %s", run)
	if err := artifacts.CheckRun(run); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	aborted := s.abortUploads(ctx, run)
	if err := s.deleteObjects(ctx, run); err != nil {
		return failure(ctx, doing, err)
	}
	if aborted != nil { // the bytes that can be freed are; owner.json stays, so that somebody tries again
		return failure(ctx, doing, aborted)
	}
	return failure(ctx, doing, s.delete(ctx, s.ownerKey(run)))
}

// abortUploads removes the parts of uploads that nobody has finished. Not all services can list them; those that cannot
// remove them by themselves.
func (s *Store) abortUploads(ctx context.Context, run types.UID) error {
	prefix := s.runPrefix(run)
	pages := awss3.NewListMultipartUploadsPaginator(s.client, &awss3.ListMultipartUploadsInput{
		Bucket: &s.bucket, Prefix: &prefix,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if hasStatus(err, http.StatusNotImplemented) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, upload := range page.Uploads {
			_, err := s.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{
				Bucket: &s.bucket, Key: upload.Key, UploadId: upload.UploadId,
			})
			if err != nil && !hasStatus(err, http.StatusNotFound) {
				return err
			}
		}
	}
	return nil
}

// deleteObjects deletes one by one: the request that deletes many needs checksums of kinds on which services differ.
func (s *Store) deleteObjects(ctx context.Context, run types.UID) error {
	pages := awss3.NewListObjectsV2Paginator(s.client, &awss3.ListObjectsV2Input{
		Bucket: &s.bucket, Prefix: aws.String(s.runPrefix(run)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, object := range page.Contents {
			if aws.ToString(object.Key) == s.ownerKey(run) {
				continue
			}
			if err := s.delete(ctx, aws.ToString(object.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasStatus tells whether a service has answered with an HTTP status.
func hasStatus(err error, status int) bool {
	return err != nil && statusOf(err) == status
}
