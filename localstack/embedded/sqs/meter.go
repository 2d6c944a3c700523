package sqs

import (
	"maps"
	"net/http"
)

// OperationUsage counts the requests of one operation on one queue.
type OperationUsage struct {
	// Requests, including rejected ones.
	Requests int64 `json:"requests"`
	// Billed requests: one for every started 64 KB of messages sent or received,
	// and at least one.
	Billed int64 `json:"billed"`
	// Bytes of message bodies and attributes.
	Bytes int64 `json:"bytes"`
}

// Usage maps queue and operation to counts. Requests that name no existing queue are
// under "".
type Usage map[string]map[string]OperationUsage

// billedChunkBytes is the payload of one billed request.
const billedChunkBytes = 64 << 10

func (u Usage) add(queue, operation string, payload int) {
	if u[queue] == nil {
		u[queue] = map[string]OperationUsage{}
	}
	c := u[queue][operation]
	c.Requests++
	c.Billed += max(1, int64(payload+billedChunkBytes-1)/billedChunkBytes)
	c.Bytes += int64(payload)
	u[queue][operation] = c
}

// Usage returns the counts since the server started.
func (s *Server) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := Usage{}
	for queue, counts := range s.usage {
		copied[queue] = maps.Clone(counts)
	}
	return copied
}

// serveMeter serves /_meter: the counts by queue and operation. SQS has no such
// address.
func (s *Server) serveMeter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		http.Error(w, "GET", http.StatusMethodNotAllowed)
		return
	}
	writeJSON(w, s.Usage())
}
