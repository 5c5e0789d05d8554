package gitsource

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// maxWords bounds what is quoted of others. Unit: bytes.
const maxWords = 1024

// printable makes text of others fit for a message: valid, on one line, bounded.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == ' ' {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimSpace(text)
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}

// explain says to a person what err means.
func explain(err error) string {
	var (
		name      *net.DNSError
		operation *net.OpError
		untrusted *tls.CertificateVerificationError
		request   *url.Error
		line      *pktline.ErrorLine
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "there is no host " + name.Name
	case errors.As(err, &name):
		return "the host cannot be found: " + name.Error()
	case errors.As(err, &untrusted):
		return "the server's certificate is not trusted: " + untrusted.Err.Error()
	case errors.As(err, &operation) && operation.Op == "dial":
		return "the host cannot be reached: " + operation.Error()
	case errors.As(err, &line):
		return "the server says: " + line.Text
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "no space is left on the volume of the Runtime's Pod"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the server ended its answer early"
	case errors.As(err, &request):
		return request.Err.Error()
	}
	return err.Error()
}
