// Package s3server starts a real S3 service for tests: versitygw, which keeps buckets as directories. "make s3server" builds
// it from the module that pins it.
package s3server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"kruntimes.io/kruntimes/artifacts/s3"
	"kruntimes.io/kruntimes/devcluster/pki"
	"kruntimes.io/kruntimes/devcluster/ports"
	"kruntimes.io/kruntimes/devcluster/process"
)

// BinaryVariable names the environment variable with the path of the server. The Makefile sets it.
const BinaryVariable = "KRUNTIMES_S3SERVER"

const (
	region    = "us-east-1"
	loopback  = "127.0.0.1"
	startWait = 20 * time.Second
	poll      = 20 * time.Millisecond
)

// Server is an S3 service on the loopback interface, with accounts and a directory of its own. Its bucket names are in the
// path of URLs.
type Server struct {
	// Endpoint is http://127.0.0.1:port, or https where there is a certificate. It stays while the server is stopped.
	Endpoint string
	// Region is what requests are signed for.
	Region string
	// AccessKeyID and SecretAccessKey may do everything.
	AccessKeyID, SecretAccessKey string
	// CAFile is what a server with TLS is to be trusted by.
	CAFile string
	// Directory holds a directory per bucket, in which keys are paths.
	Directory string

	options Options
	binary  string
	port    int
	cmd     *exec.Cmd
	ended   chan struct{}
	output  bytes.Buffer
}

// Options say how a server is started.
type Options struct {
	// Directory holds what the server keeps. Required.
	Directory string
	// CertFile and KeyFile make it speak TLS.
	CertFile, KeyFile string
}

// Start starts a server that ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return StartWith(tb, Options{Directory: tb.TempDir()})
}

// StartTLS starts a server that speaks TLS and ends with the test.
func StartTLS(tb testing.TB) *Server {
	tb.Helper()
	dir := tb.TempDir()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	pair, err := authority.Server("s3", loopback)
	if err == nil {
		err = errors.Join(pair.WriteFiles(dir, "tls"), os.WriteFile(filepath.Join(dir, "ca.crt"), authority.CertPEM, 0o600))
	}
	if err != nil {
		tb.Fatal(err)
	}
	s := StartWith(tb, Options{
		Directory: dir, CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	})
	s.CAFile = filepath.Join(dir, "ca.crt")
	return s
}

// StartWith starts a server with options that ends with the test.
func StartWith(tb testing.TB, options Options) *Server {
	tb.Helper()
	s, err := Launch(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Launch starts a server that ends with Stop, or with this process.
func Launch(options Options) (*Server, error) {
	binary, err := findBinary()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Region: region, AccessKeyID: "AK" + rand.Text()[:18], SecretAccessKey: rand.Text(),
		Directory: filepath.Join(options.Directory, "buckets"), options: options, binary: binary,
	}
	if err := os.MkdirAll(s.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of buckets: %w", err)
	}
	const tries = 5 // somebody else may take the port
	for range tries {
		if s.port, err = ports.Free(); err != nil {
			return nil, err
		}
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// findBinary returns where the server lies.
func findBinary() (string, error) {
	binary := os.Getenv(BinaryVariable)
	if binary == "" {
		dir, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("finding the S3 server: %w", err)
		}
		for !exists(filepath.Join(dir, "go.mod")) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}
		binary = filepath.Join(dir, "bin", "tools", "versitygw")
	}
	if !exists(binary) {
		return "", fmt.Errorf("no S3 server at %s: run \"make s3server\", or name one in %s", binary, BinaryVariable)
	}
	return binary, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// start runs the server and waits until it takes connections.
func (s *Server) start() error {
	address := net.JoinHostPort(loopback, strconv.Itoa(s.port))
	s.Endpoint = "http://" + address
	args := []string{"--port", address, "--region", s.Region, "--access", s.AccessKeyID, "--secret", s.SecretAccessKey}
	if s.options.CertFile != "" {
		s.Endpoint = "https://" + address
		args = append(args, "--cert", s.options.CertFile, "--key", s.options.KeyFile)
	}
	s.output.Reset()
	s.cmd = exec.Command(s.binary, append(args, "posix", s.Directory)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.SysProcAttr = process.Attributes(syscall.SIGKILL)
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := process.StartBound(s.cmd); err != nil {
		return fmt.Errorf("starting the S3 server: %w", err)
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // it is killed
		close(s.ended)
	}()
	end := time.After(startWait)
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			return conn.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the S3 server ended: %s", strings.TrimSpace(s.output.String()))
		case <-end:
			s.Stop()
			return errors.New("the S3 server takes no connections")
		case <-time.After(poll):
		}
	}
}

// Stop kills the server. What it keeps stays.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// Resume starts a stopped server again, at the same endpoint.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

// Revoke lets other keys be valid than until now.
func (s *Server) Revoke(tb testing.TB) {
	tb.Helper()
	s.Stop()
	s.AccessKeyID, s.SecretAccessKey = "AK"+rand.Text()[:18], rand.Text()
	s.Resume(tb)
}

// Client returns a client with all rights.
func (s *Server) Client() *awss3.Client {
	return awss3.New(awss3.Options{
		BaseEndpoint: &s.Endpoint, Region: s.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKeyID, s.SecretAccessKey, ""),
	})
}

// MakeBucket makes a bucket.
func (s *Server) MakeBucket(ctx context.Context, name string) error {
	_, err := s.Client().CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String(name)})
	if err != nil {
		return fmt.Errorf("making bucket %s: %w", name, err)
	}
	return nil
}

// Bucket makes a bucket with a name of its own.
func (s *Server) Bucket(tb testing.TB) (name string) {
	tb.Helper()
	name = "bucket-" + strings.ToLower(rand.Text())
	if err := s.MakeBucket(tb.Context(), name); err != nil {
		tb.Fatal(err)
	}
	return name
}

// WriteCredentials writes the keys into a directory as runtimed has them from a Secret.
func (s *Server) WriteCredentials(tb testing.TB, dir string) {
	tb.Helper()
	for name, content := range map[string]string{"accessKeyID": s.AccessKeyID, "secretAccessKey": s.SecretAccessKey} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// Config returns the configuration of a store in a bucket of the server.
func (s *Server) Config(tb testing.TB, bucket, prefix string) s3.Config {
	tb.Helper()
	dir := tb.TempDir()
	s.WriteCredentials(tb, dir)
	return s3.Config{
		Bucket: bucket, Prefix: prefix, Region: s.Region, Endpoint: s.Endpoint, ForcePathStyle: true, CredentialsDir: dir,
	}
}
