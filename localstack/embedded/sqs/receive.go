package sqs

import (
	"slices"
	"strconv"
	"strings"
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
	options := receiveOptions{
		maxMessages:       count,
		visibilityTimeout: seconds(visibility),
		systemAttributes:  slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames),
		messageAttributes: in.MessageAttributeNames,
	}
	q.processDue(c.now)
	deliveries := q.receive(c.now, options)
	switch {
	case len(deliveries) > 0:
	case wait > 0:
		deliveries = s.waitForMessages(c, q, options, seconds(wait))
	case q.full():
		return nil, overLimit(s.options.MaxInFlight)
	}
	q.processDue(c.now) // sets the timer for the end of the new visibility timeouts
	reply := &receiveMessageResult{}
	for _, d := range deliveries {
		reply.Messages = append(reply.Messages, d.received)
		c.payloadBytes += d.message.size()
	}
	return reply, nil
}

// waitForMessages releases the mutex until there is something to deliver, the limit
// is reached or the client has gone.
func (s *Server) waitForMessages(c *call, q *queue, options receiveOptions, limit time.Duration) []delivery {
	poll := q.addLongPoll(options)
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	select {
	case <-poll.done:
	case <-timer.C:
	case <-c.ctx.Done():
	}
	timer.Stop()
	s.mu.Lock()
	c.now = s.options.Clock()
	q.removeLongPoll(poll)
	if c.ctx.Err() != nil {
		q.undoDeliveries(poll.deliveries, c.now)
		return nil
	}
	return poll.deliveries
}

// receiveOptions are the settings of one receive.
type receiveOptions struct {
	maxMessages       int
	visibilityTimeout time.Duration
	systemAttributes  []string // names of system attributes
	messageAttributes []string // names of message attributes, or prefixes
}

// delivery is a message on its way to one receiver.
type delivery struct {
	message  *message
	received receivedMessage
}

// longPoll is a receive that waits for a message.
type longPoll struct {
	options    receiveOptions
	deliveries []delivery
	done       chan struct{} // closed when deliveries is set or the queue stops
}

// receive delivers visible messages, up to options.maxMessages.
func (q *queue) receive(now time.Time, options receiveOptions) (deliveries []delivery) {
	for len(deliveries) < options.maxMessages && !q.full() {
		m := q.nextVisible()
		if m == nil {
			break
		}
		if q.expired(m, now) {
			q.remove(m)
			continue
		}
		m.receiveCount++
		m.receivedAt = now
		if m.receiveCount == 1 {
			m.firstReceivedAt = now
		}
		q.hide(m, now.Add(options.visibilityTimeout))
		deliveries = append(deliveries, delivery{m, q.toReceivedMessage(m, options)})
	}
	return deliveries
}

// nextVisible takes the oldest visible message, or a random one if a fault is injected.
func (q *queue) nextVisible() *message {
	for len(q.visible) > 0 {
		if i := q.faults.pickNext(q.name, len(q.visible)); i > 0 {
			q.visible[0], q.visible[i] = q.visible[i], q.visible[0]
		}
		m := q.visible[0]
		q.visible[0] = nil
		q.visible = q.visible[1:]
		if m.state == stateVisible {
			return m
		}
	}
	return nil
}

// toReceivedMessage returns m with the attributes that the receiver requested.
func (q *queue) toReceivedMessage(m *message, options receiveOptions) receivedMessage {
	out := receivedMessage{
		MessageID:     m.ID,
		ReceiptHandle: q.receiptHandle(m),
		Body:          m.Body,
		BodyMD5:       bodyMD5(m.Body),
		Attributes:    q.systemAttributes(m, options.systemAttributes),
	}
	for name, a := range m.Attributes {
		if attributeRequested(options.messageAttributes, name) {
			if out.MessageAttributes == nil {
				out.MessageAttributes = map[string]messageAttribute{}
			}
			out.MessageAttributes[name] = a
		}
	}
	out.AttributesMD5 = attributesMD5(out.MessageAttributes)
	return out
}

// attributeRequested reports whether the names of a request include a message
// attribute. A name may be All, .* or a prefix followed by .*.
func attributeRequested(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, isPrefix := strings.CutSuffix(n, ".*")
		return n == "All" || n == name || isPrefix && (prefix == "" || strings.HasPrefix(name, prefix+".") || name == prefix)
	})
}

func (q *queue) systemAttributes(m *message, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	all := map[string]string{
		"SenderId":                         q.senderID,
		"SentTimestamp":                    strconv.FormatInt(m.SentMillis, 10),
		"ApproximateReceiveCount":          strconv.Itoa(m.receiveCount),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.firstReceivedAt.UnixMilli(), 10),
	}
	for name, value := range map[string]string{"MessageGroupId": m.GroupID, "DeadLetterQueueSourceArn": m.SourceARN} {
		if value != "" {
			all[name] = value
		}
	}
	if slices.Contains(names, "All") {
		return all
	}
	for name := range all {
		if !slices.Contains(names, name) {
			delete(all, name)
		}
	}
	return all
}

func (q *queue) addLongPoll(options receiveOptions) *longPoll {
	poll := &longPoll{options: options, done: make(chan struct{})}
	q.longPolls = append(q.longPolls, poll)
	return poll
}

// removeLongPoll removes a long poll, which may have been served already.
func (q *queue) removeLongPoll(poll *longPoll) {
	if i := slices.Index(q.longPolls, poll); i >= 0 {
		q.longPolls = slices.Delete(q.longPolls, i, i+1)
	}
}

// undoDeliveries makes messages visible again that reached no client, and does not
// count their receive.
func (q *queue) undoDeliveries(deliveries []delivery, now time.Time) {
	for _, d := range deliveries {
		if d.message.state == stateInFlight {
			d.message.receiveCount--
			q.hide(d.message, now)
		}
	}
	q.processDue(now)
}
