package gitsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// maxAdvertisement bounds the list of references of a server. Unit: bytes.
	maxAdvertisement = 64 << 20
	// maxRedirects bounds how often a server may point elsewhere.
	maxRedirects = 5

	connectTimeout = 20 * time.Second
	// answerTimeout bounds how long a server may think before it answers; large repositories need some time.
	answerTimeout = 2 * time.Minute

	referencesPath    = "/info/refs"
	advertisementType = "application/x-git-upload-pack-advertisement"
	requestType       = "application/x-git-upload-pack-request"
	resultType        = "application/x-git-upload-pack-result"
)

// remote is a repository behind https, by the "smart" protocol of git, version 0.
type remote struct {
	client *http.Client
	// base is the URL of the repository, after redirects.
	base string
}

func newRemote(address string) *remote {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: answerTimeout,
		MaxIdleConns:          1,
	}
	return &remote{
		client: &http.Client{Transport: onlyHTTPS{transport}, CheckRedirect: checkRedirect},
		base:   strings.TrimRight(address, "/"),
	}
}

// onlyHTTPS lets no request through that is not encrypted, wherever it comes from.
type onlyHTTPS struct{ next http.RoundTripper }

func (o onlyHTTPS) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("only https is spoken")
	}
	return o.next.RoundTrip(r)
}

// checkRedirect follows a server that moved the list of references, within https and not for ever. The rest of the
// conversation then takes place there, and is not redirected again.
func checkRedirect(next *http.Request, before []*http.Request) error {
	switch {
	case next.URL.Scheme != "https" || next.URL.User != nil:
		return fmt.Errorf("the server redirects to %s, which is not followed: only https is", printable(next.URL.Redacted()))
	case len(before) > maxRedirects:
		return errors.New("the server redirects too often")
	case next.Method != http.MethodGet || !strings.HasSuffix(next.URL.Path, referencesPath):
		return fmt.Errorf("the server redirects to %s, which is not a repository", printable(next.URL.Redacted()))
	}
	return nil
}

// references asks for the references of the repository.
func (r *remote) references(ctx context.Context) (*advertisement, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+referencesPath+"?service=git-upload-pack", nil)
	if err != nil {
		return nil, fmt.Errorf("asking for references: %w", err)
	}
	body, err := r.do(req, advertisementType)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return parseAdvertisement(&bounded{r: body, left: maxAdvertisement})
}

// fetch asks for objects and returns the stream that holds them.
func (r *remote) fetch(ctx context.Context, message []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/git-upload-pack", bytes.NewReader(message))
	if err != nil {
		return nil, fmt.Errorf("asking for objects: %w", err)
	}
	req.Header.Set("Content-Type", requestType)
	return r.do(req, resultType)
}

// do sends a request and checks that the answer is one of a git server.
func (r *remote) do(req *http.Request, want string) (io.ReadCloser, error) {
	req.Header.Set("User-Agent", "git/2 kruntimes") // some servers answer to nothing but git
	req.Header.Set("Accept", want)
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	err = checkStatus(res.StatusCode)
	if err == nil && res.Header.Get("Content-Type") != want {
		err = errors.New("the URL is not that of a git repository: " +
			"the server answers with " + printable(res.Header.Get("Content-Type")))
	}
	if err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	if base, ok := strings.CutSuffix(res.Request.URL.Path, referencesPath); ok {
		moved := *res.Request.URL
		moved.Path, moved.RawPath, moved.RawQuery = base, "", ""
		r.base = moved.String()
	}
	return res.Body, nil
}

// checkStatus says what the status of an answer means.
func checkStatus(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("the repository does not exist or is not public: the server asks for credentials (%d), and %w",
			status, errCredentials)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("there is no git repository at this URL (%d)", status)
	default:
		return fmt.Errorf("the server answers with %d %s", status, http.StatusText(status))
	}
}

// bounded reads no more than left, and then fails.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: it has too many references", errTooLarge)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
