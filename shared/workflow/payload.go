package workflow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// PayloadRef refers to data that is too large for its item or message and is stored in items of its
// own, under the key of a pack. The reference is a digest of the data: storing other data never
// overwrites it, and storing it again changes nothing.
type PayloadRef struct {
	Digest string `json:"d"`
	Chunks int    `json:"c"`
	Bytes  int    `json:"b"`

	// Pack is the pack under whose key the data is stored. It is left out in the item of that pack,
	// and in a value of an execution.
	Pack *PackKey `json:"p,omitempty"`
}

// Value is a JSON value of a step run: in the state item, or in items of its own.
type Value struct {
	Inline json.RawMessage `json:"inline,omitempty"`
	Stored *PayloadRef     `json:"stored,omitempty"` // under ValueKey of the execution
}

// Same reports whether two values, as step runs hold them, are equal.
func (v *Value) Same(o *Value) bool {
	if v == nil || o == nil || (v.Stored == nil) != (o.Stored == nil) {
		return v == o
	}
	if v.Stored != nil {
		return v.Stored.Digest == o.Stored.Digest
	}
	return bytes.Equal(v.Inline, o.Inline)
}

// ValueKey returns the key under which all values of an execution are stored, each by its digest:
// the step run that holds a value need not be the one that made it. It is not the key of any pack.
func ValueKey(tenant, execution string) PackKey { return PackKey{Tenant: tenant, Execution: execution} }

// PayloadChunkBytes is how many bytes of the data one item holds.
const PayloadChunkBytes = 300 << 10

// NewPayloadRef returns the reference of data.
func NewPayloadRef(data []byte) PayloadRef {
	sum := sha256.Sum256(data)
	return PayloadRefOf(hex.EncodeToString(sum[:16]), len(data))
}

// PayloadRefOf returns the reference of data with a digest and a size in bytes.
func PayloadRefOf(digest string, bytes int) PayloadRef {
	return PayloadRef{Digest: digest, Bytes: bytes, Chunks: max(1, (bytes+PayloadChunkBytes-1)/PayloadChunkBytes)}
}

// Chunk returns the part of the data in chunk n, from 0.
func (s *PayloadRef) Chunk(data []byte, n int) []byte {
	return data[n*PayloadChunkBytes : min(len(data), (n+1)*PayloadChunkBytes)]
}

// Verify checks data that was read against the reference.
func (s *PayloadRef) Verify(data []byte) error {
	if got := NewPayloadRef(data); got.Digest != s.Digest || got.Bytes != s.Bytes {
		return Errorf(CodeInternal, "stored payload is damaged: want %d bytes with digest %s, have %d", s.Bytes, s.Digest, len(data))
	}
	return nil
}

// InPack returns the reference with the key of its pack, for use outside of that pack.
func (s PayloadRef) InPack(key PackKey) *PayloadRef {
	s.Pack = &key
	return &s
}
