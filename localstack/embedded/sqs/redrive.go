package sqs

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// queueByARN finds a queue; nil if there is none.
func (s *Server) queueByARN(arn string) *queue {
	if q := s.queues[queueNameFromARN(arn)]; q != nil && q.arn == arn {
		return q
	}
	return nil
}

func queueNameFromARN(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// moveToDLQ moves m, whose last visibility time-out has ended, to the
// dead-letter queue. It keeps its id, its age and its count of receives. If
// there is no such queue or the journal fails, m stays where it is.
func (s *Server) moveToDLQ(q *queue, m *message, now time.Time) bool {
	to := s.queueByARN(q.redrive.targetARN)
	if to == nil {
		return false
	}
	moved := &message{storedMessage: m.storedMessage, receiveCount: m.receiveCount, firstReceivedAt: m.firstReceivedAt}
	moved.SourceARN, moved.NotBeforeNanos = q.arn, 0
	if err := s.appendRecord(walRecord{Op: opMoveMessages, Queue: q.name, Keys: []uint64{m.Key}, To: to.name, Messages: storedMessages([]*message{moved})}); err != nil {
		return false
	}
	q.remove(m)
	to.insert(moved, now)
	to.processDue(now)
	return true
}

// deadLetterSources lists the queues whose dead letters go to arn, by name.
func (s *Server) deadLetterSources(arn string) (queues []*queue) {
	for _, name := range s.queueNames("") {
		if q := s.queues[name]; q.redrive != nil && q.redrive.targetARN == arn {
			queues = append(queues, q)
		}
	}
	return queues
}

func (s *Server) listDeadLetterSourceQueues(c *call, in *listRequest) (*deadLetterSourcesResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	reply := &deadLetterSourcesResult{QueueURLs: []string{}}
	for _, source := range s.deadLetterSources(q.arn) {
		reply.QueueURLs = append(reply.QueueURLs, s.queueURL(c, source))
	}
	return reply, nil
}

// startMessageMoveTask sends the visible messages of a dead-letter queue to a queue, or
// each back to where it came from. The move is over when it is answered. As on
// AWS a moved message is a new one: new id, new age, no receives.
func (s *Server) startMessageMoveTask(c *call, in *moveTaskRequest) (*startMoveTaskResult, error) {
	from := s.queueByARN(in.SourceARN)
	if from == nil {
		return nil, resourceNotFound("The queue %q does not exist.", in.SourceARN)
	}
	c.queueName = from.name
	sources := s.deadLetterSources(from.arn)
	if len(sources) == 0 {
		return nil, invalidParameterValue("Source queue must be configured as a Dead Letter Queue.")
	}
	if in.DestinationARN != "" && s.queueByARN(in.DestinationARN) == nil {
		return nil, resourceNotFound("The queue %q does not exist.", in.DestinationARN)
	}
	from.processDue(c.now)
	visible, _, _ := from.counts()
	result := moveTaskResult{Status: "COMPLETED", SourceARN: in.SourceARN, DestinationARN: in.DestinationARN, StartedMillis: c.now.UnixMilli(), ToMove: visible}
	for _, m := range from.inSendOrder() {
		if m.state != stateVisible {
			continue
		}
		to := s.queueByARN(in.DestinationARN)
		if to == nil {
			to = s.queueByARN(m.SourceARN)
		}
		if to == nil { // sent to the dead-letter queue directly
			to = sources[0]
		}
		moved := &message{storedMessage: m.storedMessage}
		s.lastKey++
		moved.Key, moved.ID, moved.SourceARN, moved.NotBeforeNanos, moved.SentMillis = s.lastKey, uuid.NewString(), "", 0, c.now.UnixMilli()
		if err := s.appendRecord(walRecord{Op: opMoveMessages, Queue: from.name, Keys: []uint64{m.Key}, To: to.name, Messages: storedMessages([]*message{moved})}); err != nil {
			return nil, err
		}
		from.remove(m)
		to.insert(moved, c.now)
		to.processDue(c.now)
		result.Moved++
	}
	s.moveTasks = append([]moveTaskResult{result}, s.moveTasks[:min(9, len(s.moveTasks))]...)
	return &startMoveTaskResult{TaskHandle: uuid.NewString()}, nil
}

func (s *Server) listMessageMoveTasks(_ *call, in *moveTaskRequest) (*listMoveTasksResult, error) {
	reply := &listMoveTasksResult{Results: []moveTaskResult{}}
	for _, t := range s.moveTasks {
		if t.SourceARN == in.SourceARN && len(reply.Results) < max(1, in.MaxResults) {
			reply.Results = append(reply.Results, t)
		}
	}
	return reply, nil
}

// cancelMessageMoveTask always comes too late: a move is over when it is answered.
func (s *Server) cancelMessageMoveTask(_ *call, in *moveTaskRequest) (*emptyResult, error) {
	return nil, resourceNotFound("No move with the handle %q is running.", in.TaskHandle)
}
