package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"kruntimes.io/kruntimes/artifacts/stores"
)

const (
	// maxPrefix bounds the prefix, so that every key has 1,024 bytes at most. Unit: bytes.
	maxPrefix = 700
	// maxAttempts is how often a request is sent while its failures may pass.
	maxAttempts = 4
	// maxBackoff bounds the wait between two attempts.
	maxBackoff = 5 * time.Second
	// regionOfNone is signed with where a service other than AWS is configured without a region.
	regionOfNone = "us-east-1"
	// maxCredential bounds a file of credentials. Unit: bytes.
	maxCredential = 16 << 10
)

// The files of a directory of credentials.
const (
	accessKeyFile = "accessKeyID"
	secretKeyFile = "secretAccessKey"
	sessionFile   = "sessionToken"
)

// Config says where artifacts are kept. The files in CredentialsDir are read for every request, so that they may change.
type Config = stores.Bucket

// New returns the store of a configuration. It sends no request. Errors: a configuration that can never work.
func New(ctx context.Context, cfg Config) (*Store, error) {
	prefix, err := cleanPrefix(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	if cfg.Bucket == "" {
		return nil, errors.New("an S3 artifact store needs a bucket")
	}
	if cfg.Endpoint != "" {
		at, err := url.Parse(cfg.Endpoint)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return nil, fmt.Errorf("endpoint %q is not a URL of http or https", cfg.Endpoint)
		}
	}
	found, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration of the AWS SDK: %w", err)
	}
	client := awss3.NewFromConfig(found, func(o *awss3.Options) { apply(cfg, o) })
	return &Store{client: client, bucket: cfg.Bucket, prefix: prefix, memory: newMemory(), pace: usualPace}, nil
}

// apply sets the options that a configuration names.
func apply(c Config, o *awss3.Options) {
	if c.Region != "" {
		o.Region = c.Region
	}
	if c.Endpoint != "" {
		o.BaseEndpoint = &c.Endpoint
		if o.Region == "" {
			o.Region = regionOfNone
		}
	}
	o.UsePathStyle = c.ForcePathStyle
	if c.CredentialsDir != "" {
		o.Credentials = directory(c.CredentialsDir)
	}
	// The digest of the whole is ours. Checksums of parts are of kinds that not all services know.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
		r.MaxAttempts, r.MaxBackoff = maxAttempts, maxBackoff
	})
}

// cleanPrefix returns a prefix as keys begin with it.
func cleanPrefix(prefix string) (string, error) {
	trimmed := strings.Trim(prefix, "/")
	if trimmed == "" {
		return "", nil
	}
	if len(trimmed) > maxPrefix {
		return "", fmt.Errorf("prefix %.64q… has %d bytes, more than %d", trimmed, len(trimmed), maxPrefix)
	}
	odd := func(part string) bool { return part == "" || part == "." || part == ".." }
	if !utf8.ValidString(trimmed) || strings.ContainsFunc(trimmed, unicode.IsControl) ||
		slices.ContainsFunc(strings.Split(trimmed, "/"), odd) {
		return "", fmt.Errorf("prefix %q holds control characters, or parts that are empty, \".\" or \"..\"", prefix)
	}
	return trimmed + "/", nil
}

// directory reads credentials from files, as they are now.
type directory string

// credentialsError tells that there are no credentials.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "reading the credentials: " + e.err.Error() }

// Unwrap returns the error of the file.
func (e *credentialsError) Unwrap() error { return e.err }

// Retrieve returns the credentials. All files are of one version of the Secret: they are read again when it changed meanwhile.
func (d directory) Retrieve(context.Context) (aws.Credentials, error) {
	const tries = 3
	var got aws.Credentials
	for range tries {
		before := d.version()
		var err error
		if got, err = d.read(); err != nil {
			return aws.Credentials{}, &credentialsError{err}
		}
		if d.version() == before {
			break
		}
	}
	return got, nil
}

// version is what the kubelet changes when it replaces all files of a volume at once. Empty where it is no such volume.
func (d directory) version() string {
	at, err := os.Readlink(filepath.Join(string(d), "..data"))
	if err != nil {
		return ""
	}
	return at
}

func (d directory) read() (aws.Credentials, error) {
	id, err := d.file(accessKeyFile)
	if err != nil {
		return aws.Credentials{}, err
	}
	secret, err := d.file(secretKeyFile)
	if err != nil {
		return aws.Credentials{}, err
	}
	session, err := d.file(sessionFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return aws.Credentials{}, err
	}
	if id == "" || secret == "" {
		return aws.Credentials{}, fmt.Errorf("%s or %s is empty", accessKeyFile, secretKeyFile)
	}
	return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: session, Source: "kruntimes"}, nil
}

func (d directory) file(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		return "", err
	}
	if len(content) > maxCredential {
		return "", fmt.Errorf("%s has more than %d bytes", name, maxCredential)
	}
	return strings.TrimSpace(string(content)), nil
}
