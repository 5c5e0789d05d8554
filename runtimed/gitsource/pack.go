package gitsource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	// maxChain bounds how many differences an object may be away from one that is stored whole, as git does.
	maxChain = 4095
	// cacheSize bounds the objects that are kept for the differences that build on them.
	cacheSize = 32 * cache.MiByte
)

// packed is an object in a pack.
type packed struct {
	offset int64
	// kind is that of the object, not of its storage.
	kind plumbing.ObjectType
	// size is that of what is stored: of the object, or of the difference.
	size int64
	crc  uint32
	// base is the object that a difference is applied to; nil when the object is stored whole.
	base *packed
	// depth counts the differences on the way.
	depth int
}

// pack reads the objects of a pack file. It holds none of them that is larger than maxHeld.
type pack struct {
	scanner *packfile.Scanner
	budget  *budget
	byID    map[plumbing.Hash]*packed
	cache   *cache.BufferLRU
	index   *idxfile.MemoryIndex
}

var errDamagedPack = errors.New("the repository is damaged, or not transferred well")

// damaged says why a pack cannot be read. Whatever the cause is, it means nothing else.
func damaged(cause error) error { return fmt.Errorf("%w: %s", errDamagedPack, cause.Error()) }

// waiting is a difference whose base is not known yet.
type waiting struct {
	object *packed
	base   plumbing.Hash
}

// openPack reads a pack from its beginning to its end, and then knows all its objects.
func openPack(file *os.File, b *budget) (*pack, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	p := &pack{
		scanner: packfile.NewScanner(file), budget: b, byID: map[plumbing.Hash]*packed{}, cache: cache.NewBufferLRU(cacheSize),
	}
	_, count, err := p.scanner.Header()
	if err != nil {
		return nil, damaged(err)
	}
	if err := b.checkObjects(count); err != nil {
		return nil, err
	}
	index := &idxfile.Writer{}
	if err := index.OnHeader(count); err != nil {
		return nil, fmt.Errorf("indexing the pack: %w", err)
	}
	byOffset := make(map[int64]*packed)
	var differences []waiting
	for range count {
		d, err := p.scan(index, byOffset)
		if err != nil {
			return nil, err
		}
		if d != nil {
			differences = append(differences, *d)
		}
	}
	checksum, err := p.scanner.Checksum()
	if err != nil {
		return nil, damaged(err)
	}
	if err := p.resolve(differences, index); err != nil {
		return nil, err
	}
	if err := index.OnFooter(checksum); err != nil {
		return nil, fmt.Errorf("indexing the pack: %w", err)
	}
	p.index, err = index.Index()
	if err != nil {
		return nil, fmt.Errorf("indexing the pack: %w", err)
	}
	return p, nil
}

// scan reads the next object of the pack. It returns it when it is a difference.
func (p *pack) scan(index *idxfile.Writer, byOffset map[int64]*packed) (*waiting, error) {
	h, err := p.scanner.NextObjectHeader()
	if err != nil {
		return nil, damaged(err)
	}
	if err := p.budget.takeInflated(h.Length); err != nil {
		return nil, err
	}
	o := &packed{offset: h.Offset, kind: h.Type, size: h.Length}
	byOffset[o.offset] = o
	var d *waiting
	sink, id := io.Discard, plumbing.Hasher{}
	switch h.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		id = plumbing.NewHasher(h.Type, h.Length)
		sink = id
	case plumbing.OFSDeltaObject:
		if o.base = byOffset[h.OffsetReference]; o.base == nil || o.base == o {
			return nil, errDamagedPack
		}
		d = &waiting{object: o}
	case plumbing.REFDeltaObject:
		d = &waiting{object: o, base: h.Reference}
	default:
		return nil, errDamagedPack
	}
	n, crc, err := p.scanner.NextObject(sink)
	if err != nil {
		return nil, damaged(err)
	}
	if n != h.Length {
		return nil, errDamagedPack
	}
	o.crc = crc
	if d == nil {
		p.add(id.Sum(), o, index)
	}
	return d, nil
}

func (p *pack) add(id plumbing.Hash, o *packed, index *idxfile.Writer) {
	p.byID[id] = o
	index.Add(id, uint64(o.offset), o.crc)
}

// resolve finds out which objects the differences lead to. A difference may name a base that is itself only known once
// another difference is resolved, so it takes rounds; a round that resolves nothing is the last.
func (p *pack) resolve(differences []waiting, index *idxfile.Writer) error {
	for len(differences) > 0 {
		var later []waiting
		for _, d := range differences {
			o := d.object
			if o.base == nil {
				o.base = p.byID[d.base]
			}
			if o.base == nil || o.base.kind.IsDelta() {
				later = append(later, d)
				continue
			}
			o.kind, o.depth = o.base.kind, o.base.depth+1
			if o.depth > maxChain {
				return errDamagedPack
			}
			content, err := p.whole(o)
			if err != nil {
				return err
			}
			p.add(plumbing.ComputeHash(o.kind, content), o, index)
		}
		if len(later) == len(differences) {
			return errDamagedPack
		}
		differences = later
	}
	return nil
}

// whole returns the content of an object, in memory.
func (p *pack) whole(o *packed) ([]byte, error) {
	var chain []*packed
	var content []byte
	for at := o; content == nil; at = at.base {
		if kept, ok := p.cache.Get(at.offset); ok {
			content = kept
			break
		}
		if at.base == nil {
			stored, err := p.stored(at)
			if err != nil {
				return nil, err
			}
			p.cache.Put(at.offset, stored)
			content = stored
			break
		}
		chain = append(chain, at)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		difference, err := p.stored(chain[i])
		if err != nil {
			return nil, err
		}
		if content, err = p.apply(content, difference); err != nil {
			return nil, err
		}
		p.cache.Put(chain[i].offset, content)
	}
	return content, nil
}

// apply applies a difference, after looking at how much it makes.
func (p *pack) apply(base, difference []byte) ([]byte, error) {
	_, n := binary.Uvarint(difference)
	if n <= 0 {
		return nil, errDamagedPack
	}
	target, n := binary.Uvarint(difference[n:])
	if n <= 0 {
		return nil, errDamagedPack
	}
	if err := errors.Join(p.budget.checkHeld(int64(target)), p.budget.takeInflated(int64(target))); err != nil {
		return nil, err
	}
	content, err := packfile.PatchDelta(base, difference)
	if err != nil {
		return nil, damaged(err)
	}
	return content, nil
}

// stored returns what is stored of an object: its content, or a difference.
func (p *pack) stored(o *packed) ([]byte, error) {
	if err := p.budget.checkHeld(o.size); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.Grow(int(o.size))
	if err := p.copyStored(&buf, o); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func (p *pack) copyStored(w io.Writer, o *packed) error {
	if _, err := p.scanner.SeekObjectHeader(o.offset); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	n, _, err := p.scanner.NextObject(w)
	if err != nil {
		return err
	}
	if n != o.size {
		return errDamagedPack
	}
	return nil
}

// find returns the object id, which must be of kind.
func (p *pack) find(id plumbing.Hash, kind plumbing.ObjectType) (*packed, error) {
	o := p.byID[id]
	if o == nil || o.kind != kind {
		return nil, fmt.Errorf("the server did not send the %s %s", kind, id)
	}
	return o, nil
}

// read returns the content of a commit, tag or tree.
func (p *pack) read(id plumbing.Hash, kind plumbing.ObjectType) ([]byte, error) {
	o, err := p.find(id, kind)
	if err != nil {
		return nil, err
	}
	return p.whole(o)
}

// copyBlob writes a file's content to w. Large files are never in memory as a whole, unless they are a difference.
func (p *pack) copyBlob(w io.Writer, id plumbing.Hash) error {
	o, err := p.find(id, plumbing.BlobObject)
	if err != nil {
		return err
	}
	if o.base == nil {
		return p.copyStored(w, o)
	}
	content, err := p.whole(o)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
