package sqs

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// The kinds of records. Receives and visibility are not stored: after a restart
// every message is visible and its receives are counted from zero.
const (
	opPutQueue       = "queue"  // a queue with all its attributes; replaces an earlier record
	opDeleteQueue    = "drop"   // a queue was deleted
	opSendMessages   = "put"    // messages were sent
	opDeleteMessages = "delete" // messages were deleted
	opMoveMessages   = "move"   // messages left a queue (keys) and entered another, in one step
)

type walRecord struct {
	Op         string            `json:"op"`
	Queue      string            `json:"queue"`
	Created    int64             `json:"created,omitempty"` // Unix milliseconds
	Attributes map[string]string `json:"attributes,omitempty"`
	Messages   []storedMessage   `json:"messages,omitempty"`
	Keys       []uint64          `json:"keys,omitempty"`
	To         string            `json:"to,omitempty"`
}

// queueRecord returns the record of the present state of a queue.
func queueRecord(q *queue) walRecord {
	return walRecord{Op: opPutQueue, Queue: q.name, Created: q.created.UnixMilli(), Attributes: q.attributes}
}

func storedMessages(messages []*message) []storedMessage {
	stored := make([]storedMessage, len(messages))
	for i, m := range messages {
		stored[i] = m.storedMessage
	}
	return stored
}

// appendRecord writes a record, before its change is applied, and compacts the log
// when most of it is out of date.
func (s *Server) appendRecord(r walRecord) error {
	if s.wal == nil {
		return nil
	}
	live := 0
	for _, q := range s.queues {
		live += 1 + len(q.messages)
	}
	if s.wal.needsCompaction(live) {
		if err := s.wal.Compact(s.snapshot()); err != nil {
			return internalError(err)
		}
	}
	if err := s.wal.Append(r); err != nil {
		return internalError(err)
	}
	return nil
}

// snapshot returns the shortest log of the current state: the queues, then their messages in the
// order of sending.
func (s *Server) snapshot() iter.Seq[any] {
	return func(yield func(any) bool) {
		names := slices.Sorted(maps.Keys(s.queues))
		for _, name := range names {
			if !yield(queueRecord(s.queues[name])) {
				return
			}
		}
		for _, name := range names {
			for batch := range slices.Chunk(s.queues[name].inSendOrder(), 100) {
				if !yield(walRecord{Op: opSendMessages, Queue: name, Messages: storedMessages(batch)}) {
					return
				}
			}
		}
	}
}

// load opens the log and restores the queues from its records.
func (s *Server) load(dir string) (err error) {
	now := s.options.Clock()
	s.wal, err = openWAL(dir, func(line []byte) error {
		var r walRecord
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		return s.replay(r, now)
	})
	if err != nil {
		return err
	}
	for _, q := range s.queues {
		if value := q.attributes["RedrivePolicy"]; value != "" {
			if q.redrive, err = parseRedrivePolicy(value); err != nil {
				return err
			}
		}
		for _, m := range q.inSendOrder() {
			s.lastKey = max(s.lastKey, m.Key)
		}
		q.processDue(now)
	}
	return nil
}

// replay applies a record.
func (s *Server) replay(r walRecord, now time.Time) error {
	q := s.queues[r.Queue]
	if r.Op == opPutQueue {
		if q == nil {
			q = s.openQueue(r.Queue, time.UnixMilli(r.Created))
			s.queues[r.Queue] = q
		}
		q.attributes = r.Attributes
		return nil
	}
	to := q
	if r.To != "" {
		to = s.queues[r.To]
	}
	if q == nil || to == nil {
		return fmt.Errorf("record %s names a queue that was not created: %q %q", r.Op, r.Queue, r.To)
	}
	switch r.Op {
	case opDeleteQueue:
		delete(s.queues, r.Queue)
	case opSendMessages, opDeleteMessages, opMoveMessages:
		for _, key := range r.Keys {
			if m := q.messages[key]; m != nil {
				q.remove(m)
			}
		}
		for _, stored := range r.Messages {
			to.insert(&message{storedMessage: stored}, now)
		}
	default:
		return fmt.Errorf("unknown kind of record %q: another version has written it", r.Op)
	}
	return nil
}
