package gitsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// order is what is asked of a server.
type order struct {
	ids []plumbing.Hash
	// shallow asks for the commits themselves without what came before them.
	shallow bool
}

// orderFor decides what to ask for. A server that hands out only what it names itself is asked for all branches and
// tags when another commit is wanted.
func orderFor(a *advertisement, w wanted) order {
	anything := a.capabilities["allow-any-sha1-in-want"] || a.capabilities["allow-reachable-sha1-in-want"]
	if w.advertised || anything {
		return order{ids: []plumbing.Hash{w.id}, shallow: a.capabilities["shallow"]}
	}
	var o order
	for name, id := range a.references {
		if strings.HasPrefix(name, branchPrefix) || strings.HasPrefix(name, tagPrefix) {
			o.ids = append(o.ids, id)
		}
	}
	plumbing.HashesSort(o.ids)
	o.ids = slices.Compact(o.ids)
	return o
}

// message writes an order in the protocol of git.
func (o order) message(capabilities map[string]bool) ([]byte, error) {
	var words []string
	for _, word := range []string{"multi_ack_detailed", "side-band-64k", "ofs-delta", "no-progress", "shallow"} {
		if capabilities[word] && (word != "shallow" || o.shallow) {
			words = append(words, word)
		}
	}
	var buf bytes.Buffer
	lines := pktline.NewEncoder(&buf)
	for i, id := range o.ids {
		extra := ""
		if i == 0 {
			extra = " " + strings.Join(words, " ")
		}
		if err := lines.Encodef("want %s%s\n", id, extra); err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
	}
	if o.shallow {
		if err := lines.EncodeString("deepen 1\n"); err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
	}
	if err := errors.Join(lines.Flush(), lines.EncodeString("done\n")); err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	return buf.Bytes(), nil
}

// receive sends an order and copies the pack that comes back to w. It returns the commits whose parents the server
// left out.
func receive(ctx context.Context, r *remote, a *advertisement, o order, w io.Writer) ([]plumbing.Hash, error) {
	message, err := o.message(a.capabilities)
	if err != nil {
		return nil, err
	}
	body, err := r.fetch(ctx, message)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	cut, err := readPreface(body, o.shallow)
	if err != nil {
		return nil, err
	}
	var pack io.Reader = body
	if a.capabilities["side-band-64k"] {
		pack = sideband.NewDemuxer(sideband.Sideband64k, body)
	}
	if _, err := io.Copy(w, pack); err != nil {
		return nil, fmt.Errorf("receiving the repository: %w", err)
	}
	return cut, nil
}

// maxCut bounds the commits whose parents a server may leave out.
const maxCut = 1000

// readPreface reads what comes before the pack: the shallow commits, and the word that the server shares nothing.
func readPreface(r io.Reader, shallow bool) ([]plumbing.Hash, error) {
	var cut []plumbing.Hash
	lines := pktline.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		id, isCut := strings.CutPrefix(line, "shallow ")
		switch {
		case isCut && shallow && len(id) == 40 && isHex(id) && len(cut) < maxCut:
			cut = append(cut, plumbing.NewHash(id))
		case line == "" && shallow, strings.HasPrefix(line, "unshallow "):
		case line == "NAK":
			return cut, nil
		default:
			return nil, errors.New("the server does not speak the protocol of git")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, unlessSpoken(err)
	}
	return nil, io.ErrUnexpectedEOF
}
