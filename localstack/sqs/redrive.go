package sqs

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// byARN finds a queue; nil if there is none.
func (s *Server) byARN(arn string) *queue.Queue {
	if q := s.queues[arnName(arn)]; q != nil && q.ARN == arn {
		return q
	}
	return nil
}

func arnName(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// deadLetter moves m, whose last visibility time-out has ended, to the
// dead-letter queue. It keeps its id, its age and its count of receives. If
// there is no such queue or the journal fails, m stays where it is.
func (s *Server) deadLetter(q *queue.Queue, m *queue.Message, now time.Time) bool {
	to := s.byARN(q.Redrive.Target)
	if to == nil {
		return false
	}
	moved := &queue.Message{Stored: m.Stored, Receives: m.Receives, First: m.First}
	moved.Source, moved.NotBefore = q.ARN, 0
	if err := s.keep(record{Op: opMove, Queue: q.Name, Keys: []uint64{m.Key}, To: to.Name, Messages: storedParts([]*queue.Message{moved})}); err != nil {
		return false
	}
	q.Remove(m)
	to.Insert(moved, now)
	to.Settle(now)
	return true
}

// sources lists the queues whose dead letters go to arn, by name.
func (s *Server) sources(arn string) (found []*queue.Queue) {
	for _, name := range s.names("") {
		if q := s.queues[name]; q.Redrive != nil && q.Redrive.Target == arn {
			found = append(found, q)
		}
	}
	return found
}

func (s *Server) listSources(c *call, in *wire.List) (*wire.SourceQueues, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	reply := &wire.SourceQueues{QueueURLs: []string{}}
	for _, source := range s.sources(q.ARN) {
		reply.QueueURLs = append(reply.QueueURLs, s.url(c, source))
	}
	return reply, nil
}

// startMove sends the visible messages of a dead-letter queue to a queue, or
// each back to where it came from. The move is over when it is answered. As on
// AWS a moved message is a new one: new id, new age, no receives.
func (s *Server) startMove(c *call, in *wire.MoveTask) (*wire.TaskStarted, error) {
	from := s.byARN(in.SourceARN)
	if from == nil {
		return nil, wire.NoTask("The queue %q does not exist.", in.SourceARN)
	}
	c.queue = from.Name
	sources := s.sources(from.ARN)
	if len(sources) == 0 {
		return nil, wire.BadParameter("Source queue must be configured as a Dead Letter Queue.")
	}
	if in.DestinationARN != "" && s.byARN(in.DestinationARN) == nil {
		return nil, wire.NoTask("The queue %q does not exist.", in.DestinationARN)
	}
	from.Settle(c.now)
	visible, _, _ := from.Count()
	result := wire.TaskResult{Status: "COMPLETED", SourceARN: in.SourceARN, DestinationARN: in.DestinationARN, StartedMillis: c.now.UnixMilli(), ToMove: visible}
	for _, m := range from.InOrder() {
		if m.State != queue.Ready {
			continue
		}
		to := s.byARN(in.DestinationARN)
		if to == nil {
			to = s.byARN(m.Source)
		}
		if to == nil { // sent to the dead-letter queue directly
			to = sources[0]
		}
		moved := &queue.Message{Stored: m.Stored}
		s.key++
		moved.Key, moved.ID, moved.Source, moved.NotBefore, moved.Sent = s.key, uuid.NewString(), "", 0, c.now.UnixMilli()
		if err := s.keep(record{Op: opMove, Queue: from.Name, Keys: []uint64{m.Key}, To: to.Name, Messages: storedParts([]*queue.Message{moved})}); err != nil {
			return nil, err
		}
		from.Remove(m)
		to.Insert(moved, c.now)
		to.Settle(c.now)
		result.Moved++
	}
	s.tasks = append([]wire.TaskResult{result}, s.tasks[:min(9, len(s.tasks))]...)
	return &wire.TaskStarted{TaskHandle: uuid.NewString()}, nil
}

func (s *Server) listMoves(_ *call, in *wire.MoveTask) (*wire.Tasks, error) {
	reply := &wire.Tasks{Results: []wire.TaskResult{}}
	for _, t := range s.tasks {
		if t.SourceARN == in.SourceARN && len(reply.Results) < max(1, in.MaxResults) {
			reply.Results = append(reply.Results, t)
		}
	}
	return reply, nil
}

// cancelMove always comes too late: a move is over when it is answered.
func (s *Server) cancelMove(_ *call, in *wire.MoveTask) (*wire.Nothing, error) {
	return nil, wire.NoTask("No move with the handle %q is running.", in.TaskHandle)
}
