package sqs

import (
	"slices"
	"time"
)

func (s *Server) receiveMessage(c *call, in *receiveMessageRequest) (*receiveMessageResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	count, err := intInRange("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, 1, 10)
	if err != nil {
		return nil, err
	}
	wait, err := intInRange("WaitTimeSeconds", in.WaitTimeSeconds, q.intAttribute("ReceiveMessageWaitTimeSeconds"), 0, 20)
	if err != nil {
		return nil, err
	}
	visibility, err := intInRange("VisibilityTimeout", in.VisibilityTimeout, q.intAttribute("VisibilityTimeout"), 0, maxVisibilitySeconds)
	if err != nil {
		return nil, err
	}
	want := receiveOptions{
		maxMessages:       count,
		visibilityTimeout: seconds(visibility),
		systemAttributes:  slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames),
		messageAttributes: in.MessageAttributeNames,
	}
	q.processDue(c.now)
	got := q.receive(c.now, want)
	switch {
	case len(got) > 0:
	case wait > 0:
		got = s.waitForMessages(c, q, want, seconds(wait))
	case q.full():
		return nil, overLimit(s.options.MaxInFlight)
	}
	q.processDue(c.now) // what was taken comes back some time: the timer must know
	reply := &receiveMessageResult{}
	for _, d := range got {
		reply.Messages = append(reply.Messages, d.received)
		c.payloadBytes += d.message.size()
	}
	return reply, nil
}

// waitForMessages gives up the mutex until there is something to deliver, the time is
// over or the client has gone.
func (s *Server) waitForMessages(c *call, q *queue, want receiveOptions, limit time.Duration) []delivery {
	w := q.addLongPoll(want)
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	select {
	case <-w.finished():
	case <-timer.C:
	case <-c.ctx.Done():
	}
	timer.Stop()
	s.mu.Lock()
	c.now = s.options.Clock()
	q.removeLongPoll(w)
	if c.ctx.Err() != nil {
		q.undoDeliveries(w.deliveries, c.now)
		return nil
	}
	return w.deliveries
}
