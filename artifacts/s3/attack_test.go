package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/s3"
	"kruntimes.io/kruntimes/test/s3server"
)

// slowDown returns an endpoint in front of another one that passes on 64 KiB of each direction of a connection, and then
// nothing any more.
func slowDown(t *testing.T, endpoint string) string {
	t.Helper()
	target := strings.TrimPrefix(endpoint, "http://")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		listener.Close()
	})
	trickle := func(to, from net.Conn) {
		_, err := io.CopyN(to, from, 64<<10)
		if err == nil {
			<-ctx.Done()
		}
		to.Close()
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			go trickle(server, client)
			go trickle(client, server)
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestServiceWithTLS(t *testing.T) {
	server := s3server.StartTLS(t)
	t.Setenv("AWS_CA_BUNDLE", server.CAFile)
	store := open(t, s3.Config{
		Bucket: "artifacts", Region: server.Region, Endpoint: server.Endpoint, ForcePathStyle: true,
		CredentialsDir: server.Config(t, "artifacts", "").CredentialsDir,
	})
	must(t, os.Mkdir(server.Directory+"/artifacts", 0o700)) // the client that makes buckets does not trust the certificate
	must(t, store.Check(t.Context()))
	must(t, store.Claim(t.Context(), run, artifacts.Owner{Run: "r"}))
	for _, size := range []int{1, 20 << 20} {
		content := strings.Repeat("x", size)
		ref, err := store.Put(t.Context(), object("a"), strings.NewReader(content))
		must(t, err)
		r, err := store.Open(t.Context(), ref)
		must(t, err)
		got, err := io.ReadAll(r)
		must(t, err)
		must(t, r.Close())
		if string(got) != content {
			t.Errorf("size %d: got %d bytes", size, len(got))
		}
	}
}

// TestServiceThatAnswersOddly has a service that is none.
func TestServiceThatAnswersOddly(t *testing.T) {
	for name, test := range map[string]struct {
		status  int
		body    string
		words   string
		passing bool
	}{
		"a proxy without a service":  {http.StatusBadGateway, "<html>Bad Gateway</html>", "HTTP status 502 Bad Gateway", true},
		"a service that is too busy": {http.StatusServiceUnavailable, "<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>", "SlowDown: Reduce your rate", true},
		"a page that asks to log in": {http.StatusForbidden, "<html>Log in</html>", "HTTP status 403 Forbidden", false},
		"an error that is clear": {
			http.StatusForbidden, "<Error><Code>AccessDenied</Code><Message>Not\nyou</Message><RequestId>R</RequestId><HostId>H</HostId></Error>",
			"AccessDenied: Not you", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("X-Amz-Request-Id", "R")
				w.Header().Set("X-Amz-Id-2", "H")
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer service.Close()
			dir := t.TempDir()
			must(t, os.WriteFile(dir+"/accessKeyID", []byte("a"), 0o600))
			must(t, os.WriteFile(dir+"/secretAccessKey", []byte("s"), 0o600))
			store := open(t, s3.Config{Bucket: "bucket", Endpoint: service.URL, ForcePathStyle: true, CredentialsDir: dir})
			err := store.Claim(t.Context(), run, artifacts.Owner{})
			var failed *artifacts.StoreError
			if !errors.As(err, &failed) || failed.Words != test.words || failed.Passing != test.passing {
				t.Errorf("got %v (%+v), want the words %q", err, failed, test.words)
			}
		})
	}
}

// TestServiceThatBreaksOff has a service that announces more than it sends.
func TestServiceThatBreaksOff(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "half")
	}))
	defer service.Close()
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/accessKeyID", []byte("a"), 0o600))
	must(t, os.WriteFile(dir+"/secretAccessKey", []byte("s"), 0o600))
	store := open(t, s3.Config{Bucket: "bucket", Endpoint: service.URL, ForcePathStyle: true, CredentialsDir: dir})
	ref := artifactOf("bucket")
	r, err := store.Open(t.Context(), ref)
	must(t, err)
	defer r.Close()
	if _, err := io.ReadAll(r); !artifacts.IsPassing(err) || !strings.HasSuffix(err.Error(), ": unexpected EOF") {
		t.Errorf("got %v, want an error that may pass", err)
	}
}

func TestWordsOfErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		words   string
		passing bool
	}{
		"the SDK finds no region": {
			&smithy.OperationError{ServiceID: "S3", OperationName: "PutObject", Err: errors.New("resolve: Invalid Configuration: Missing Region")},
			"resolve: Invalid Configuration: Missing Region", false,
		},
		"a name that is unknown": {
			&smithyhttp.RequestSendError{Err: &url.Error{Op: "Put", URL: "http://s3/?secret", Err: &net.DNSError{Err: "no such host", Name: "s3"}}},
			"lookup s3: no such host", true,
		},
		"attempts that did not help": {
			fmt.Errorf("exceeded maximum number of attempts, 4, https response error StatusCode: 0, RequestID: R, HostID: H, %w", io.ErrUnexpectedEOF),
			"StatusCode: 0, unexpected EOF", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s3.Words(test.err); got != test.words {
				t.Errorf("got %q, want %q", got, test.words)
			}
			if got := s3.Passing(test.err); got != test.passing {
				t.Errorf("got passing %t, want %t", got, test.passing)
			}
		})
	}
}

func artifactOf(bucket string) corev1alpha1.ArtifactRef {
	return corev1alpha1.ArtifactRef{
		Name: "a", Driver: corev1alpha1.ArtifactDriverS3, Location: at(bucket, artifacts.Path(run, "a")),
	}
}
