package sqs

import "maps"

// OperationUsage is what one operation on one queue has cost.
type OperationUsage struct {
	// Requests as they arrived, refused ones included.
	Requests int64 `json:"requests"`
	// Billed is what AWS would bill: a request for every 64 KB, or part of it,
	// of the messages sent or received, and at least one.
	Billed int64 `json:"billed"`
	// Bytes of message bodies and attributes.
	Bytes int64 `json:"bytes"`
}

// Usage maps queue and operation to counts. Requests that name no queue of ours
// are under "".
type Usage map[string]map[string]OperationUsage

// billedChunkBytes is the payload that one billed request carries.
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
