package sim

import (
	"bytes"
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// payloadKey is one part of what is stored beside a pack.
type payloadKey struct {
	pack   workflow.PackKey
	digest string
	chunk  int
}

// SavePayload stores data beside a pack, part by part: each is a call of its own.
func (p *Packs) SavePayload(_ context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
	s := workflow.NewPayloadRef(data)
	for i := range s.Chunks {
		_, err := call(p.conn, "packs.save_payload", func(bool) (empty, error) {
			p.countWrite(tableJobs)
			p.w.payloads[payloadKey{key, s.Digest, i}] = bytes.Clone(s.Chunk(data, i))
			return empty{}, nil
		})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// LoadPayload reads what is stored beside a pack.
func (p *Packs) LoadPayload(_ context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
	return call(p.conn, "packs.load_payload", func(bool) ([]byte, error) {
		p.countReads(tableJobs, s.Chunks)
		var data []byte
		for i := range s.Chunks {
			part, ok := p.w.payloads[payloadKey{key, s.Digest, i}]
			if !ok {
				return nil, workflow.Errorf(workflow.CodeNotFound, "chunk %d of the payload of pack %s is missing", i+1, key)
			}
			data = append(data, part...)
		}
		return data, s.Verify(data)
	})
}
