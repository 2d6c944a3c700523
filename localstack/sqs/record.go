package sqs

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/journal"
	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// The kinds of records. Receives and visibility are not kept: after a restart
// every message is visible, and its receives are counted anew.
const (
	opQueue  = "queue"  // a queue with all its attributes and tags; replaces an earlier one
	opDrop   = "drop"   // a queue was deleted
	opPurge  = "purge"  // its messages were deleted
	opPut    = "put"    // messages were sent
	opDelete = "delete" // messages were deleted
	opMove   = "move"   // messages left a queue (keys) and entered another, in one step
)

type record struct {
	Op         string            `json:"op"`
	Queue      string            `json:"q"`
	Created    int64             `json:"created,omitempty"` // Unix milliseconds
	Attributes map[string]string `json:"attributes,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	Messages   []queue.Stored    `json:"m,omitempty"`
	Keys       []uint64          `json:"k,omitempty"`
	To         string            `json:"to,omitempty"`
}

// described is the record of a queue as it is now.
func described(q *queue.Queue) record {
	return record{Op: opQueue, Queue: q.Name, Created: q.Created.UnixMilli(), Attributes: q.Attributes, Tags: q.Tags}
}

func storedParts(messages []*queue.Message) []queue.Stored {
	parts := make([]queue.Stored, len(messages))
	for i, m := range messages {
		parts[i] = m.Stored
	}
	return parts
}

// keep writes a record before what it says is done. Once in a while it first
// writes the journal anew.
func (s *Server) keep(r record) error {
	if s.log == nil {
		return nil
	}
	live := 0
	for _, q := range s.queues {
		live += 1 + q.Len()
	}
	if s.log.Stale(live) {
		if err := s.log.Compact(s.snapshot()); err != nil {
			return wire.Internal(err)
		}
	}
	if err := s.log.Append(r); err != nil {
		return wire.Internal(err)
	}
	return nil
}

// snapshot is the shortest journal that says what is there: the queues, then
// their messages in the order in which they were sent.
func (s *Server) snapshot() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, name := range s.names("") {
			if !yield(described(s.queues[name])) {
				return
			}
		}
		for _, name := range s.names("") {
			for batch := range slices.Chunk(s.queues[name].InOrder(), 100) {
				if !yield(record{Op: opPut, Queue: name, Messages: storedParts(batch)}) {
					return
				}
			}
		}
	}
}

// load opens the journal and makes the queues what its records say.
func (s *Server) load(dir string) (err error) {
	now := s.options.Clock()
	s.log, err = journal.Open(dir, func(line []byte) error {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		return s.replay(r, now)
	})
	if err != nil {
		return err
	}
	for _, q := range s.queues {
		if value := q.Attributes["RedrivePolicy"]; value != "" {
			if q.Redrive, err = queue.ParseRedrive(value); err != nil {
				return err
			}
		}
		for _, m := range q.InOrder() {
			s.key = max(s.key, m.Key)
		}
		q.Remember(now)
		q.Settle(now)
	}
	return nil
}

// replay does again what a record says was done.
func (s *Server) replay(r record, now time.Time) error {
	q := s.queues[r.Queue]
	if r.Op == opQueue {
		if q == nil {
			q = s.newQueue(r.Queue, time.UnixMilli(r.Created))
			s.queues[r.Queue] = q
		}
		q.Attributes, q.Tags = r.Attributes, maps.Clone(r.Tags)
		if q.Tags == nil {
			q.Tags = map[string]string{}
		}
		return nil
	}
	to := q
	if r.To != "" {
		to = s.queues[r.To]
	}
	if q == nil || to == nil {
		return fmt.Errorf("%s names a queue that was not created: %q %q", r.Op, r.Queue, r.To)
	}
	switch r.Op {
	case opDrop:
		delete(s.queues, r.Queue)
	case opPurge:
		q.Clear()
	case opPut, opDelete, opMove:
		for _, key := range r.Keys {
			if m := q.Message(key); m != nil {
				q.Remove(m)
			}
		}
		for _, part := range r.Messages {
			to.Insert(&queue.Message{Stored: part}, now)
		}
	default:
		return fmt.Errorf("a record of the unknown kind %q: written by a newer version", r.Op)
	}
	return nil
}
