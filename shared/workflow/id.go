package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// DerivedID is an execution id that follows from a moment and a text: a UUIDv7
// whose random part is the text's hash. Whoever starts the same thing again, at
// whatever time, starts it under the same id.
func DerivedID(at time.Time, seed string) string {
	b := sha256.Sum256([]byte(seed))
	ms := uint64(at.UnixMilli()) //nolint:gosec // times before 1970 do not occur
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
