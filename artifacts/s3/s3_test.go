package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/s3"
	"kruntimes.io/kruntimes/test/artifactstore"
	"kruntimes.io/kruntimes/test/s3server"
)

const run types.UID = "2c24c1f0-9f8f-4f80-82d5-3dd16a12d1e6"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, cfg s3.Config) *s3.Store {
	tb.Helper()
	store, err := s3.New(tb.Context(), cfg)
	must(tb, err)
	return store
}

func at(bucket, key string) corev1alpha1.ArtifactLocation {
	return corev1alpha1.ArtifactLocation{S3: &corev1alpha1.S3Location{Bucket: bucket, Key: key}}
}

func object(name string) artifacts.Object {
	return artifacts.Object{Run: run, Name: name, Type: corev1alpha1.ArtifactFile}
}

// claimed returns a store with a Run that has one artifact.
func claimed(t *testing.T, cfg s3.Config) (*s3.Store, corev1alpha1.ArtifactRef) {
	t.Helper()
	store := open(t, cfg)
	must(t, store.Claim(t.Context(), run, artifacts.Owner{Run: "r"}))
	ref, err := store.Put(t.Context(), object("a"), strings.NewReader("content"))
	must(t, err)
	return store, ref
}

// keys lists a bucket.
func keys(tb testing.TB, server *s3server.Server, bucket string) (got []string) {
	tb.Helper()
	pages := awss3.NewListObjectsV2Paginator(server.Client(), &awss3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(tb.Context())
		must(tb, err)
		for _, o := range page.Contents {
			got = append(got, aws.ToString(o.Key))
		}
	}
	return got
}

// uploads lists what is being uploaded into a bucket.
func uploads(tb testing.TB, server *s3server.Server, bucket string) (got []string) {
	tb.Helper()
	page, err := server.Client().ListMultipartUploads(tb.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket})
	must(tb, err)
	for _, u := range page.Uploads {
		got = append(got, aws.ToString(u.Key))
	}
	return got
}

func TestStore(t *testing.T) {
	server := s3server.Start(t)
	for name, prefix := range map[string]string{"without a prefix": "", "with a prefix": "/team a/ci/"} {
		t.Run(name, func(t *testing.T) {
			artifactstore.Test(t, func(t *testing.T) artifactstore.Subject { return subject(t, server, prefix) })
		})
	}
}

// subject is a store in a bucket of its own, where another prefix holds a Run of the same UID.
func subject(t *testing.T, server *s3server.Server, prefix string) artifactstore.Subject {
	t.Helper()
	bucket := server.Bucket(t)
	cfg := server.Config(t, bucket, prefix)
	below := strings.TrimPrefix(prefix, "/")
	path := artifacts.Path(run, "a")
	return artifactstore.Subject{
		Store: open(t, cfg), Other: open(t, cfg), Driver: corev1alpha1.ArtifactDriverS3,
		At: func(path string) corev1alpha1.ArtifactLocation { return at(bucket, below+path) },
		Objects: func(tb testing.TB) (got []string) {
			tb.Helper()
			for _, key := range keys(tb, server, bucket) {
				got = append(got, strings.TrimPrefix(key, below))
			}
			return got
		},
		Unfinished: func(tb testing.TB) int {
			tb.Helper()
			return len(uploads(tb, server, bucket))
		},
		Replace: func(tb testing.TB, path string, content []byte) {
			tb.Helper()
			_, err := server.Client().PutObject(tb.Context(), &awss3.PutObjectInput{
				Bucket: &bucket, Key: aws.String(below + path), Body: bytes.NewReader(content),
			})
			must(tb, err)
		},
		Elsewhere: map[string]corev1alpha1.ArtifactRef{
			"a file of a volume": {Name: "a", Driver: corev1alpha1.ArtifactDriverFilesystem, Location: corev1alpha1.ArtifactLocation{
				Filesystem: &corev1alpha1.FilesystemLocation{Path: path},
			}},
			"another bucket":               {Name: "a", Driver: corev1alpha1.ArtifactDriverS3, Location: at("other", below+path)},
			"another prefix":               {Name: "a", Driver: corev1alpha1.ArtifactDriverS3, Location: at(bucket, "other/"+path)},
			"an address of another driver": {Name: "a", Driver: corev1alpha1.ArtifactDriverFilesystem, Location: at(bucket, below+path)},
			"an address without a place":   {Name: "a", Driver: corev1alpha1.ArtifactDriverS3},
		},
	}
}

func TestPrefixesShareABucket(t *testing.T) {
	server := s3server.Start(t)
	bucket := server.Bucket(t)
	stores := map[string]*s3.Store{}
	for _, prefix := range []string{"", "team", "team-b"} {
		store := open(t, server.Config(t, bucket, prefix))
		must(t, store.Claim(t.Context(), run, artifacts.Owner{Run: "of " + prefix}))
		_, err := store.Put(t.Context(), object("a"), strings.NewReader(prefix))
		must(t, err)
		stores[prefix] = store
	}
	must(t, stores["team"].Remove(t.Context(), run))
	for prefix, want := range map[string]int{"": 1, "team": 0, "team-b": 1} {
		n := 0
		for claim, err := range stores[prefix].Claims(t.Context()) {
			must(t, err)
			if n++; claim.Owner.Run != "of "+prefix {
				t.Errorf("prefix %q lists %+v", prefix, claim)
			}
		}
		if n != want {
			t.Errorf("prefix %q lists %d Runs, want %d", prefix, n, want)
		}
	}
}

// everything does all that a store can with the Run, and returns the errors by what was done.
// All at a time, since each is tried again for some seconds.
func everything(ctx context.Context, store *s3.Store, ref corev1alpha1.ArtifactRef) map[string]error {
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]error{}
	for doing, do := range map[string]func() error{
		"check":  func() error { return store.Check(ctx) },
		"claim":  func() error { return store.Claim(ctx, run, artifacts.Owner{Run: "r"}) },
		"remove": func() error { return store.Remove(ctx, run) },
		"owner": func() error {
			_, err := store.Owner(ctx, run)
			return err
		},
		"put": func() error {
			_, err := store.Put(ctx, object("a"), strings.NewReader("other"))
			return err
		},
		"put of many parts": func() error {
			_, err := store.Put(ctx, object("a"), bytes.NewReader(make([]byte, 9<<20)))
			return err
		},
		"open": func() error {
			_, err := store.Open(ctx, ref)
			return err
		},
		"claims": func() (last error) {
			for _, err := range store.Claims(ctx) {
				last = err
			}
			return last
		},
	} {
		all.Go(func() {
			err := do()
			mu.Lock()
			defer mu.Unlock()
			got[doing] = err
		})
	}
	all.Wait()
	return got
}

func TestServiceThatRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(t *testing.T, server *s3server.Server, cfg *s3.Config)
		words   string // a pattern for all of them
		passing bool
	}{
		"a service that is gone": {
			change: func(t *testing.T, server *s3server.Server, cfg *s3.Config) { server.Stop() },
			words:  `dial tcp 127\.0\.0\.1:\d+: connect: connection refused`, passing: true,
		},
		"a bucket that is not there": {
			change: func(t *testing.T, server *s3server.Server, cfg *s3.Config) { cfg.Bucket = "nowhere" },
			words:  `NoSuchBucket: .*bucket does not exist.*`,
		},
		"a secret that is wrong": {
			change: func(t *testing.T, server *s3server.Server, cfg *s3.Config) {
				must(t, os.WriteFile(filepath.Join(cfg.CredentialsDir, "secretAccessKey"), []byte("wrong"), 0o600))
			},
			words: `SignatureDoesNotMatch: .*`,
		},
		"keys that were revoked": {
			change: func(t *testing.T, server *s3server.Server, cfg *s3.Config) { server.Revoke(t) },
			words:  `(InvalidAccessKeyId|XAdminUserNotFound): .*`,
		},
		"credentials that are not there": {
			change: func(t *testing.T, server *s3server.Server, cfg *s3.Config) {
				must(t, os.Remove(filepath.Join(cfg.CredentialsDir, "accessKeyID")))
			},
			words: `reading the credentials: open .*/accessKeyID: no such file or directory`,
		},
		"credentials that are empty": {
			change: func(t *testing.T, server *s3server.Server, cfg *s3.Config) {
				must(t, os.WriteFile(filepath.Join(cfg.CredentialsDir, "accessKeyID"), []byte("\n"), 0o600))
			},
			words: `reading the credentials: accessKeyID or secretAccessKey is empty`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := s3server.Start(t)
			cfg := server.Config(t, server.Bucket(t), "p")
			_, ref := claimed(t, cfg)
			test.change(t, server, &cfg)
			ref.Location.S3.Bucket = cfg.Bucket
			pattern := regexp.MustCompile("^" + test.words + "$")
			for doing, err := range everything(t.Context(), open(t, cfg), ref) {
				var failed *artifacts.StoreError
				if !errors.As(err, &failed) || !pattern.MatchString(failed.Words) || failed.Passing != test.passing {
					t.Errorf("%s: got %v, want words like %q", doing, err, test.words)
				}
			}
		})
	}
}

func TestCredentialsAreReadAgain(t *testing.T) {
	server := s3server.Start(t)
	cfg := server.Config(t, server.Bucket(t), "")
	store, ref := claimed(t, cfg)
	server.Revoke(t)
	if _, err := store.Open(t.Context(), ref); err == nil {
		t.Error("revoked keys opened an artifact")
	}
	server.WriteCredentials(t, cfg.CredentialsDir)
	r, err := store.Open(t.Context(), ref)
	must(t, err)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "content" {
		t.Errorf("got %q and error %v", got, err)
	}
}

func TestServiceComesBack(t *testing.T) {
	server := s3server.Start(t)
	store, ref := claimed(t, server.Config(t, server.Bucket(t), ""))
	server.Stop()
	if err := store.Check(t.Context()); !artifacts.IsPassing(err) {
		t.Errorf("got %v, want an error that may pass", err)
	}
	server.Resume(t)
	must(t, store.Check(t.Context()))
	r, err := store.Open(t.Context(), ref)
	must(t, err)
	must(t, r.Close())
}

// TestUploadThatIsKilled leaves what a process leaves that dies: the parts that it has sent.
func TestUploadThatIsKilled(t *testing.T) {
	server := s3server.Start(t)
	bucket := server.Bucket(t)
	store, _ := claimed(t, server.Config(t, bucket, "p"))
	client := server.Client()
	other := "p/runs/00000000-0000-0000-0000-000000000001/artifacts/a"
	for _, key := range []string{"p/" + artifacts.Path(run, "b"), "p/" + artifacts.Path(run, "c"), other} {
		upload, err := client.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key})
		must(t, err)
		_, err = client.UploadPart(t.Context(), &awss3.UploadPartInput{
			Bucket: &bucket, Key: &key, UploadId: upload.UploadId, PartNumber: aws.Int32(1), Body: bytes.NewReader(make([]byte, 5<<20)),
		})
		must(t, err)
	}
	_, err := store.Put(t.Context(), object("b"), bytes.NewReader(make([]byte, 20<<20)))
	must(t, err)
	must(t, store.Remove(t.Context(), run))
	if got := uploads(t, server, bucket); len(got) != 1 || got[0] != other {
		t.Errorf("left the uploads %q, want only that of another Run", got)
	}
	if got := keys(t, server, bucket); len(got) != 0 {
		t.Errorf("left the objects %q", got)
	}
}

func TestConfigurationsThatNeverWork(t *testing.T) {
	for name, cfg := range map[string]s3.Config{
		"no bucket":                  {},
		"an endpoint without scheme": {Bucket: "bucket", Endpoint: "minio:9000"},
		"an endpoint of a file":      {Bucket: "bucket", Endpoint: "file:///etc"},
		"a prefix that goes up":      {Bucket: "bucket", Prefix: "a/../b"},
		"a prefix with empty parts":  {Bucket: "bucket", Prefix: "a//b"},
		"a prefix with a line break": {Bucket: "bucket", Prefix: "a\nb"},
		"a prefix that is too long":  {Bucket: "bucket", Prefix: strings.Repeat("p", 701)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s3.New(t.Context(), cfg); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

func TestPartsFit(t *testing.T) {
	const giga = 1 << 30
	for name, test := range map[string]struct{ maxBytes, want int64 }{
		"no bound":                {0, 8 << 20},
		"a small bound":           {1, 8 << 20},
		"the usual bound":         {10 * giga, 8 << 20},
		"the last of small parts": {s3.MaxParts * 8 << 20, 8 << 20},
		"the first of larger":     {s3.MaxParts*8<<20 + 1, 9 << 20},
		"a large bound":           {300 * giga, 31 << 20},
		"more than ever fits":     {5 << 40, s3.Budget},
	} {
		t.Run(name, func(t *testing.T) {
			got := s3.PartSize(test.maxBytes)
			if got != test.want || got > s3.Budget || got*s3.MaxParts < min(test.maxBytes, s3.Budget*s3.MaxParts) {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// TestLargerParts sends parts of another size than the usual one.
func TestLargerParts(t *testing.T) {
	server := s3server.Start(t)
	store, _ := claimed(t, server.Config(t, server.Bucket(t), ""))
	large := object("large")
	large.MaxBytes = s3.MaxParts * 13 << 20
	content := bytes.Repeat([]byte("0123456789abcde\n"), 30<<16)
	ref, err := store.Put(t.Context(), large, bytes.NewReader(content))
	must(t, err)
	r, err := store.Open(t.Context(), ref)
	must(t, err)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %d bytes and error %v", len(got), err)
	}
}

func TestServiceThatIsSlow(t *testing.T) {
	server := s3server.Start(t)
	bucket := server.Bucket(t)
	cfg := server.Config(t, bucket, "")
	store, _ := claimed(t, cfg)
	ref, err := store.Put(t.Context(), object("large"), bytes.NewReader(make([]byte, 20<<20)))
	must(t, err)
	cfg.Endpoint = slowDown(t, server.Endpoint)
	through := open(t, cfg)
	through.SetPace(300*time.Millisecond, 300*time.Millisecond)
	slow := regexp.MustCompile(`: the service is too slow: `)
	for name, size := range map[string]int{"one part": 1 << 20, "many parts": 20 << 20} {
		_, err := through.Put(t.Context(), object("b"), bytes.NewReader(make([]byte, size)))
		if err == nil || !slow.MatchString(err.Error()) || !artifacts.IsPassing(err) {
			t.Errorf("storing %s: got %v", name, err)
		}
	}
	r, err := through.Open(t.Context(), ref)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		must(t, r.Close())
	}
	if err == nil || !slow.MatchString(err.Error()) || !artifacts.IsPassing(err) {
		t.Errorf("reading: got %v", err)
	}
	if got := keys(t, server, bucket); len(got) != 3 {
		t.Errorf("the bucket holds %q, want the owner and two artifacts", got)
	}
	if got := uploads(t, server, bucket); len(got) != 0 {
		t.Errorf("left the uploads %q", got)
	}
}
