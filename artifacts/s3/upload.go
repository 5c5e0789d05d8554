package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

const (
	// budget bounds the memory of all parts of a Store that are on their way. Unit: bytes.
	budget = 40 << 20
	// smallPart is the size of parts as long as that is enough. Services want 5 MiB at least. Unit: bytes.
	smallPart = 8 << 20
	// maxParts is how many parts services take.
	maxParts = 10_000
)

// partSize returns how large parts must be so that maxBytes fit into the parts that services take. All parts of an upload
// are of one size but the last, since some services want that. Zero maxBytes: no bound.
func partSize(maxBytes int64) int64 {
	const step = 1 << 20
	needed := (maxBytes + maxParts - 1) / maxParts
	needed = (needed + step - 1) / step * step
	return min(max(needed, smallPart), budget)
}

// memory lends out the buffers of parts.
type memory struct {
	free  *semaphore.Weighted
	small sync.Pool // of *[]byte, all of smallPart
}

func newMemory() *memory {
	return &memory{free: semaphore.NewWeighted(budget), small: sync.Pool{New: func() any {
		buffer := make([]byte, smallPart)
		return &buffer
	}}}
}

// take waits for a buffer. Errors: the cause where ctx ends.
func (m *memory) take(ctx context.Context, size int64) (*[]byte, error) {
	if err := m.free.Acquire(ctx, size); err != nil {
		return nil, context.Cause(ctx)
	}
	if size == smallPart {
		return m.small.Get().(*[]byte), nil
	}
	buffer := make([]byte, size)
	return &buffer, nil
}

func (m *memory) give(buffer *[]byte) {
	if len(*buffer) == smallPart {
		m.small.Put(buffer)
	}
	m.free.Release(int64(len(*buffer)))
}

// uploaded says what content came to.
type uploaded struct {
	size   int64
	digest string
}

// upload stores all of content under key, or nothing.
func (s *Store) upload(ctx context.Context, key string, content io.Reader, maxBytes int64) (uploaded, error) {
	u := &upload{
		store: s, key: key, content: stream.Bound(ctx, content, maxBytes), partSize: partSize(maxBytes), sum: sha256.New(),
	}
	first, last, err := u.read(ctx)
	switch {
	case err != nil:
	case last:
		err = s.putWhole(ctx, key, first.content())
		s.memory.give(first.buffer)
	default:
		err = u.inParts(ctx, first)
	}
	return uploaded{size: u.size, digest: artifacts.Digest(u.sum)}, err
}

// upload reads content part by part.
type upload struct {
	store    *Store
	key      string
	content  io.Reader
	partSize int64
	sum      hash.Hash
	size     int64
}

// part is content in memory.
type part struct {
	buffer *[]byte
	size   int
}

func (p part) content() []byte { return (*p.buffer)[:p.size] }

// read reads the next part, and tells whether it is the last one. Whoever gets a part gives its buffer back.
func (u *upload) read(ctx context.Context) (p part, last bool, err error) {
	p.buffer, err = u.store.memory.take(ctx, u.partSize)
	if err != nil {
		return part{}, false, stream.Content(err)
	}
	p.size, err = stream.Fill(u.content, *p.buffer)
	if err != nil && !stream.AtEnd(err) {
		u.store.memory.give(p.buffer)
		return part{}, false, stream.Content(err)
	}
	u.sum.Write(p.content())
	u.size += int64(p.size)
	return p, err != nil, nil
}

// inParts stores content in parts that become an object when all of them are there. Else they are removed.
func (u *upload) inParts(ctx context.Context, first part) error {
	s := u.store
	created, err := s.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &u.key})
	if err != nil {
		s.memory.give(first.buffer)
		return err
	}
	parts, err := u.parts(ctx, created.UploadId, first)
	if err == nil {
		_, err = s.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: &s.bucket, Key: &u.key, UploadId: created.UploadId,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
	}
	if err != nil {
		s.clean(ctx, func(ctx context.Context) error {
			_, err := s.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{
				Bucket: &s.bucket, Key: &u.key, UploadId: created.UploadId,
			})
			return err
		})
	}
	return err
}

// parts sends part after part, as many at a time as memory allows. When it returns, none is on its way any more.
func (u *upload) parts(ctx context.Context, id *string, next part) ([]types.CompletedPart, error) {
	group, sending := errgroup.WithContext(ctx)
	var tags []*string
	last := false
	for {
		p, number, tag := next, int32(len(tags)+1), new(string)
		tags = append(tags, tag)
		group.Go(func() (err error) {
			defer u.store.memory.give(p.buffer)
			*tag, err = u.send(sending, id, number, p.content())
			return err
		})
		if last {
			break
		}
		var err error
		if next, last, err = u.read(sending); err == nil && next.size == 0 {
			u.store.memory.give(next.buffer) // the content ended with the part before
			break
		}
		if err == nil && len(tags) == maxParts {
			u.store.memory.give(next.buffer)
			err = stream.Content(fmt.Errorf("%w: more than %d parts of %d bytes", artifacts.ErrTooLarge, maxParts, u.partSize))
		}
		if err != nil {
			return nil, firstOf(ctx, group.Wait(), err)
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	parts := make([]types.CompletedPart, len(tags))
	for i := range tags {
		parts[i] = types.CompletedPart{ETag: tags[i], PartNumber: aws.Int32(int32(i + 1))}
	}
	return parts, nil
}

// firstOf returns the error that came first: a part that was not sent ends the reading, not the other way round.
func firstOf(ctx context.Context, sent, read error) error {
	if sent != nil && ctx.Err() == nil {
		return sent
	}
	return read
}

// send sends a part and returns the tag by which the service knows it.
func (u *upload) send(ctx context.Context, id *string, number int32, content []byte) (string, error) {
	ctx, cancel := u.store.pace.request(ctx)
	defer cancel()
	out, err := u.store.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &u.store.bucket, Key: &u.key, UploadId: id, PartNumber: &number,
		Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
	})
	if err != nil {
		return "", slow(ctx, err)
	}
	return aws.ToString(out.ETag), nil
}
