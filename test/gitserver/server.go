package gitserver

import (
	"bufio"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// Server is a git server on the loopback interface.
type Server struct {
	// URL is https://127.0.0.1:port.
	URL string
	// CAFile holds the certificate that the server is to be trusted by.
	CAFile string
}

// Start serves handler until the end of the test.
func Start(tb testing.TB, handler http.Handler) *Server {
	tb.Helper()
	s := httptest.NewTLSServer(handler)
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	file := filepath.Join(tb.TempDir(), "ca.crt")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return &Server{URL: s.URL, CAFile: file}
}

// ServeHTTP answers as git's own server does, for a repository at any path.
func (r *Repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case strings.HasSuffix(req.URL.Path, "/info/refs") && req.URL.Query().Get("service") == "git-upload-pack":
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		r.advertise(w)
	case strings.HasSuffix(req.URL.Path, "/git-upload-pack") && req.Method == http.MethodPost:
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		r.upload(w, req.Body)
	default:
		http.NotFound(w, req)
	}
}

func (r *Repository) advertise(w io.Writer) {
	words := "side-band-64k ofs-delta multi_ack_detailed thin-pack no-progress agent=test"
	if !r.Deep {
		words += " shallow"
	}
	if r.AllowAny {
		words += " allow-any-sha1-in-want"
	}
	lines := pktline.NewEncoder(w)
	_ = lines.EncodeString("# service=git-upload-pack\n")
	_ = lines.Flush()
	var list []string
	if id, ok := r.References[r.Head]; ok {
		words += " symref=HEAD:" + r.Head
		list = append(list, id.String()+" HEAD")
	}
	for _, name := range slices.Sorted(maps.Keys(r.References)) {
		list = append(list, r.References[name].String()+" "+name)
	}
	if len(list) == 0 {
		list = append(list, plumbing.ZeroHash.String()+" capabilities^{}")
	}
	for i, line := range list {
		if i == 0 {
			line += "\x00" + words
		}
		_ = lines.EncodeString(line + "\n")
	}
	_ = lines.Flush()
}

// upload answers a request for objects.
func (r *Repository) upload(w io.Writer, body io.Reader) {
	lines := pktline.NewEncoder(w)
	wants, shallow, err := r.wants(body)
	if err != nil {
		_ = lines.EncodeString("ERR upload-pack: " + err.Error() + "\n")
		return
	}
	if shallow {
		for _, id := range r.cut(wants) {
			_ = lines.EncodeString(fmt.Sprintf("shallow %s\n", id))
		}
		_ = lines.Flush()
	}
	_ = lines.EncodeString("NAK\n")
	buf := bufio.NewWriterSize(sideband.NewMuxer(sideband.Sideband64k, w), 60000)
	if err := errors.Join(r.Pack(buf, wants, !shallow, false), buf.Flush()); err != nil {
		return // a torn stream says it
	}
	_ = lines.Flush()
}

func (r *Repository) wants(body io.Reader) (wants []plumbing.Hash, shallow bool, err error) {
	lines := pktline.NewScanner(body)
	for lines.Scan() {
		words := strings.Fields(string(lines.Bytes()))
		switch {
		case len(words) > 1 && words[0] == "want":
			id := plumbing.NewHash(words[1])
			if !r.handsOut(id) {
				return nil, false, fmt.Errorf("not our ref %s", id)
			}
			wants = append(wants, id)
		case len(words) > 1 && words[0] == "deepen":
			shallow = true
		}
	}
	return wants, shallow, lines.Err()
}

func (r *Repository) handsOut(id plumbing.Hash) bool {
	if r.AllowAny {
		_, err := r.storage.EncodedObject(plumbing.AnyObject, id)
		return err == nil
	}
	return slices.Contains(slices.Collect(maps.Values(r.References)), id)
}
