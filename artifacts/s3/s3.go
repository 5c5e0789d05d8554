// Package s3 keeps artifacts in a bucket of any service that speaks S3.
//
// Content that fits into one part is put with one request, else in parts. All parts that are on their way in a Store hold 40
// MiB of memory at most, however many artifacts there are.
package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

// cleaning bounds how long is taken, after a failure, to remove what it leaves.
const cleaning = 30 * time.Second

// Store keeps artifacts in a bucket.
type Store struct {
	client *awss3.Client
	bucket string
	prefix string // empty, or ends with a slash
	memory *memory
	pace   pace
}

var _ artifacts.Store = (*Store)(nil)

// Claim writes owner.json of a Run.
func (s *Store) Claim(ctx context.Context, run types.UID, owner artifacts.Owner) error {
	doing := fmt.Sprintf("claiming the artifacts of Run %s", run)
	if err := artifacts.CheckRun(run); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	content, err := json.Marshal(owner)
	if err != nil {
		return fmt.Errorf("%s: encoding the owner: %w", doing, err)
	}
	return failure(ctx, doing, s.putWhole(ctx, s.ownerKey(run), content))
}

// Owner reads owner.json of a Run.
func (s *Store) Owner(ctx context.Context, run types.UID) (artifacts.Owner, error) {
	claim, err := s.claimOf(ctx, run)
	return claim.Owner, err
}

func (s *Store) claimOf(ctx context.Context, run types.UID) (artifacts.Claim, error) {
	claim := artifacts.Claim{Run: run}
	doing := fmt.Sprintf("reading the owner of Run %s", run)
	if err := artifacts.CheckRun(run); err != nil {
		return claim, fmt.Errorf("%s: %w", doing, err)
	}
	out, err := s.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(s.ownerKey(run))})
	if err != nil {
		return claim, missing(ctx, doing, err)
	}
	defer out.Body.Close()
	if claim.Owner, err = artifacts.ReadOwner(out.Body); err != nil {
		return claim, failure(ctx, doing, err)
	}
	claim.Since = aws.ToTime(out.LastModified)
	return claim, nil
}

// Put stores content in one or more parts. Then it makes sure that the Run was not removed meanwhile: nobody would remove
// the artifact after that.
func (s *Store) Put(ctx context.Context, object artifacts.Object, content io.Reader) (corev1alpha1.ArtifactRef, error) {
	none := corev1alpha1.ArtifactRef{}
	if err := artifacts.CheckObject(object); err != nil {
		return none, fmt.Errorf("storing an artifact: %w", err)
	}
	doing := fmt.Sprintf("storing artifact %q", object.Name)
	key := s.prefix + artifacts.Path(object.Run, object.Name)
	done, err := s.upload(ctx, key, content, object.MaxBytes)
	if err != nil {
		return none, failure(ctx, doing, err)
	}
	head, err := s.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return none, failure(ctx, doing, err)
	}
	if _, err := s.Owner(ctx, object.Run); errors.Is(err, artifacts.ErrNotFound) {
		s.clean(ctx, func(ctx context.Context) error { return s.delete(ctx, key) })
		return none, fmt.Errorf("%s: %w", doing, artifacts.ErrUnclaimed)
	} else if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	created := metav1.NewTime(aws.ToTime(head.LastModified).UTC())
	return corev1alpha1.ArtifactRef{
		Name: object.Name, Driver: corev1alpha1.ArtifactDriverS3, Type: object.Type,
		Location:  corev1alpha1.ArtifactLocation{S3: &corev1alpha1.S3Location{Bucket: s.bucket, Key: key}},
		SizeBytes: done.size, Digest: done.digest, CreatedAt: &created,
	}, nil
}

// Open reads an artifact.
func (s *Store) Open(ctx context.Context, ref corev1alpha1.ArtifactRef) (io.ReadCloser, error) {
	doing := fmt.Sprintf("opening artifact %q", ref.Name)
	at := ref.Location.S3
	if at == nil {
		return nil, fmt.Errorf("%s: an artifact of driver %q: %w", doing, ref.Driver, artifacts.ErrOutside)
	}
	rel, below := strings.CutPrefix(at.Key, s.prefix)
	if at.Bucket != s.bucket || !below {
		return nil, fmt.Errorf("%s: key %q of bucket %q: %w", doing, at.Key, at.Bucket, artifacts.ErrOutside)
	}
	if err := artifacts.CheckRef(ref, corev1alpha1.ArtifactDriverS3, rel); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	reading, cancel := context.WithCancelCause(ctx)
	out, err := s.client.GetObject(reading, &awss3.GetObjectInput{Bucket: &s.bucket, Key: &at.Key})
	if err != nil {
		cancel(nil)
		return nil, missing(ctx, doing, err)
	}
	return stream.Verify(ctx, s.pace.body(reading, cancel, doing, out.Body), ref), nil
}

// Claims yields the Runs below the prefix.
func (s *Store) Claims(ctx context.Context) iter.Seq2[artifacts.Claim, error] {
	return func(yield func(artifacts.Claim, error) bool) {
		const doing = "listing the artifact store"
		runs := s.prefix + artifacts.RunsDirectory + "/"
		pages := awss3.NewListObjectsV2Paginator(s.client, &awss3.ListObjectsV2Input{
			Bucket: &s.bucket, Prefix: &runs, Delimiter: aws.String("/"),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(artifacts.Claim{}, failure(ctx, doing, err))
				return
			}
			for _, below := range page.CommonPrefixes {
				run := types.UID(strings.TrimSuffix(strings.TrimPrefix(aws.ToString(below.Prefix), runs), "/"))
				if artifacts.CheckRun(run) != nil {
					continue
				}
				claim, err := s.claimOf(ctx, run)
				if errors.Is(err, artifacts.ErrNotFound) {
					if err = s.unclaimed(ctx, run); err == nil {
						continue
					}
				}
				if !yield(claim, err) {
					return
				}
			}
		}
	}
}

// unclaimed tells why a Run is listed that has no owner.json. Nil: it was removed meanwhile.
func (s *Store) unclaimed(ctx context.Context, run types.UID) error {
	doing := fmt.Sprintf("reading the owner of Run %s", run)
	page, err := s.client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{
		Bucket: &s.bucket, Prefix: aws.String(s.runPrefix(run)), MaxKeys: aws.Int32(1),
	})
	if err != nil {
		return failure(ctx, doing, err)
	}
	if len(page.Contents) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, artifacts.ErrUnclaimed)
}

// Check lists, puts and deletes, which is all that artifacts need beside being read.
func (s *Store) Check(ctx context.Context) error {
	runs := s.prefix + artifacts.RunsDirectory + "/"
	_, err := s.client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &runs, MaxKeys: aws.Int32(1)})
	if err != nil {
		return failure(ctx, fmt.Sprintf("listing bucket %q", s.bucket), err)
	}
	key := runs + ".check" // no Run has that name
	if err := s.putWhole(ctx, key, []byte("{}")); err != nil {
		return failure(ctx, fmt.Sprintf("writing to bucket %q", s.bucket), err)
	}
	return failure(ctx, fmt.Sprintf("deleting from bucket %q", s.bucket), s.delete(ctx, key))
}

func (s *Store) runPrefix(run types.UID) string {
	return s.prefix + artifacts.RunsDirectory + "/" + string(run) + "/"
}

func (s *Store) ownerKey(run types.UID) string { return s.runPrefix(run) + artifacts.OwnerFile }

func (s *Store) putWhole(ctx context.Context, key string, content []byte) error {
	ctx, cancel := s.pace.request(ctx)
	defer cancel()
	_, err := s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
	})
	return slow(ctx, err)
}

func (s *Store) delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return err
}

// clean removes what a failure leaves, also when ctx has ended. What it cannot remove goes with the Run.
func (s *Store) clean(ctx context.Context, remove func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	_ = remove(ctx)
}
