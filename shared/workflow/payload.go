package workflow

import (
	"crypto/sha256"
	"encoding/hex"
)

// PayloadRef says where something lives that is too large for the item or the message
// it belongs to: in items of its own beside a pack. It is found by what it is, so
// that nobody who stores something else, at whatever time, gets in its way, and
// storing it again changes nothing.
type PayloadRef struct {
	Digest string `json:"d"`
	Chunks int    `json:"c"`
	Bytes  int    `json:"b"`

	// Pack is the pack beside which it lives. The pack's own item leaves it out.
	Pack *PackKey `json:"p,omitempty"`
}

// PayloadChunkBytes is how many bytes one item of something stored holds.
const PayloadChunkBytes = 300 << 10

// NewPayloadRef is where data is stored.
func NewPayloadRef(data []byte) PayloadRef {
	sum := sha256.Sum256(data)
	return PayloadRef{
		Digest: hex.EncodeToString(sum[:16]), Bytes: len(data),
		Chunks: max(1, (len(data)+PayloadChunkBytes-1)/PayloadChunkBytes),
	}
}

// Chunk is one of its parts, from 0.
func (s *PayloadRef) Chunk(data []byte, n int) []byte {
	return data[n*PayloadChunkBytes : min(len(data), (n+1)*PayloadChunkBytes)]
}

// Verify checks what was read again.
func (s *PayloadRef) Verify(data []byte) error {
	if got := NewPayloadRef(data); got.Digest != s.Digest || got.Bytes != s.Bytes {
		return Errorf(CodeInternal, "of %d stored bytes, %d are there, or others", s.Bytes, len(data))
	}
	return nil
}

// InPack is the same, named from elsewhere.
func (s PayloadRef) InPack(key PackKey) *PayloadRef {
	s.Pack = &key
	return &s
}
