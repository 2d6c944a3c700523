package sqs

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

func (s *Server) receiveMessage(c *call, in *wire.ReceiveMessage) (*wire.Received, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	count, err := queue.Within("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, 1, 10)
	if err != nil {
		return nil, err
	}
	wait, err := queue.Within("WaitTimeSeconds", in.WaitTimeSeconds, q.Number("ReceiveMessageWaitTimeSeconds"), 0, 20)
	if err != nil {
		return nil, err
	}
	visibility, err := queue.Within("VisibilityTimeout", in.VisibilityTimeout, q.Number("VisibilityTimeout"), 0, queue.MaxVisibility)
	if err != nil {
		return nil, err
	}
	want := queue.Want{
		Count:      count,
		Visibility: queue.Seconds(visibility),
		System:     slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames),
		Attributes: in.MessageAttributeNames,
	}
	q.Settle(c.now)
	got := q.Take(c.now, want)
	switch {
	case len(got) > 0:
	case wait > 0:
		got = s.await(c, q, want, queue.Seconds(wait))
	case q.Full():
		return nil, wire.OverLimit(s.options.MaxInFlight)
	}
	q.Settle(c.now) // what was taken comes back some time: the timer must know
	reply := &wire.Received{}
	for _, d := range got {
		reply.Messages = append(reply.Messages, d.Out)
		c.payload += d.Message.Size()
	}
	return reply, nil
}

// await gives up the mutex until there is something to deliver, the time is
// over or the client has gone.
func (s *Server) await(c *call, q *queue.Queue, want queue.Want, limit time.Duration) []queue.Delivery {
	w := q.Wait(want)
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	select {
	case <-w.Done():
	case <-timer.C:
	case <-c.ctx.Done():
	}
	timer.Stop()
	s.mu.Lock()
	c.now = s.options.Clock()
	q.Leave(w)
	if c.ctx.Err() != nil {
		q.Return(w.Got, c.now)
		return nil
	}
	return w.Got
}
