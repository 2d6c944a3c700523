package workflow

import (
	"crypto/sha256"
	"encoding/hex"
)

// Stored says where something lives that is too large for the item or the message
// it belongs to: in items of its own beside a pack. It is found by what it is, so
// that nobody who stores something else, at whatever time, gets in its way, and
// storing it again changes nothing.
type Stored struct {
	Digest string `json:"d"`
	Chunks int    `json:"c"`
	Bytes  int    `json:"b"`

	// Pack is the pack beside which it lives. The pack's own item leaves it out.
	Pack *PackKey `json:"p,omitempty"`
}

// StoredChunk is how many bytes one item of something stored holds.
const StoredChunk = 300 << 10

// StoredOf is where data is stored.
func StoredOf(data []byte) Stored {
	sum := sha256.Sum256(data)
	return Stored{
		Digest: hex.EncodeToString(sum[:16]), Bytes: len(data),
		Chunks: max(1, (len(data)+StoredChunk-1)/StoredChunk),
	}
}

// Chunk is one of its parts, from 0.
func (s *Stored) Chunk(data []byte, n int) []byte {
	return data[n*StoredChunk : min(len(data), (n+1)*StoredChunk)]
}

// Whole checks what was read again.
func (s *Stored) Whole(data []byte) error {
	if got := StoredOf(data); got.Digest != s.Digest || got.Bytes != s.Bytes {
		return Errorf(CodeInternal, "of %d stored bytes, %d are there, or others", s.Bytes, len(data))
	}
	return nil
}

// At is the same, named from elsewhere.
func (s Stored) At(key PackKey) *Stored {
	s.Pack = &key
	return &s
}
