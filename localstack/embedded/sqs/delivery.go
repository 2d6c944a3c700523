package sqs

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// receiveOptions is what a receive asks for.
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

// longPoll is a long poll that waits for something to deliver.
type longPoll struct {
	options    receiveOptions
	deliveries []delivery
	done       chan struct{} // closed when Got is filled, or nothing will come
}

// receive delivers up to w.Count visible messages.
func (q *queue) receive(now time.Time, w receiveOptions) (got []delivery) {
	next := q.nextVisible
	if q.fifo {
		next = q.nextInGroups()
	}
	for len(got) < w.maxMessages && !q.full() {
		m := next()
		if m == nil {
			break
		}
		if q.expired(m, now) {
			q.remove(m)
			continue
		}
		m.receiveCount++
		if m.receiveCount == 1 {
			m.firstReceivedAt = now
		}
		q.hide(m, now.Add(w.visibilityTimeout))
		got = append(got, delivery{m, q.toReceivedMessage(m, w)})
	}
	return got
}

// nextVisible takes the oldest message out of ready, or any where a fault says so.
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

// toReceivedMessage shows m as its receiver asked to see it.
func (q *queue) toReceivedMessage(m *message, w receiveOptions) receivedMessage {
	out := receivedMessage{
		MessageID:     m.ID,
		ReceiptHandle: q.receiptHandle(m),
		Body:          m.Body,
		BodyMD5:       bodyMD5(m.Body),
		Attributes:    q.systemAttributes(m, w.systemAttributes),
	}
	for name, a := range m.Attributes {
		if attributeRequested(w.messageAttributes, name) {
			if out.MessageAttributes == nil {
				out.MessageAttributes = map[string]messageAttribute{}
			}
			out.MessageAttributes[name] = a
		}
	}
	out.AttributesMD5 = attributesMD5(out.MessageAttributes)
	return out
}

// attributeRequested tells whether a message attribute is among the names of a request,
// which may be All, .* or a prefix with .* behind it.
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
	optional := map[string]string{"MessageGroupId": m.GroupID, "MessageDeduplicationId": m.DedupID, "DeadLetterQueueSourceArn": m.SourceARN}
	if q.fifo {
		optional["SequenceNumber"] = m.sequenceNumber()
	}
	if trace, ok := m.TraceAttributes["AWSTraceHeader"]; ok {
		optional["AWSTraceHeader"] = *trace.StringValue
	}
	for name, value := range optional {
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

// addLongPoll registers a long poll.
func (q *queue) addLongPoll(w receiveOptions) *longPoll {
	poll := &longPoll{options: w, done: make(chan struct{})}
	q.longPolls = append(q.longPolls, poll)
	return poll
}

// finished is closed when Got is filled, or when there is no more to wait for.
func (w *longPoll) finished() <-chan struct{} { return w.done }

// removeLongPoll ends a long poll that may not have been served.
func (q *queue) removeLongPoll(w *longPoll) {
	if i := slices.Index(q.longPolls, w); i >= 0 {
		q.longPolls = slices.Delete(q.longPolls, i, i+1)
	}
}

// undoDeliveries takes deliveries back that reached nobody, as if they had not been made.
func (q *queue) undoDeliveries(got []delivery, now time.Time) {
	for _, d := range got {
		if d.message.state == stateInFlight {
			d.message.receiveCount--
			q.hide(d.message, now)
		}
	}
	q.processDue(now)
}
