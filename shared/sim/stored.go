package sim

import (
	"bytes"
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// storedKey is one part of what is stored beside a pack.
type storedKey struct {
	pack   workflow.PackKey
	digest string
	chunk  int
}

// Save stores data beside a pack, part by part: each is a call of its own.
func (p *Packs) Save(_ context.Context, key workflow.PackKey, data []byte) (workflow.Stored, error) {
	s := workflow.StoredOf(data)
	for i := range s.Chunks {
		_, err := call(p.line, "packs.save", func(bool) (nothing, error) {
			p.writes(tableJobs)
			p.w.stored[storedKey{key, s.Digest, i}] = bytes.Clone(s.Chunk(data, i))
			return nothing{}, nil
		})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// Load reads what is stored beside a pack.
func (p *Packs) Load(_ context.Context, key workflow.PackKey, s workflow.Stored) ([]byte, error) {
	return call(p.line, "packs.load", func(bool) ([]byte, error) {
		p.reads(tableJobs, s.Chunks)
		var data []byte
		for i := range s.Chunks {
			part, ok := p.w.stored[storedKey{key, s.Digest, i}]
			if !ok {
				return nil, workflow.Errorf(workflow.CodeNotFound, "part %d of what is stored beside pack %s is missing", i, key)
			}
			data = append(data, part...)
		}
		return data, s.Whole(data)
	})
}
