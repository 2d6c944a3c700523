package queue

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// Want is what a receive asks for.
type Want struct {
	Count      int
	Visibility time.Duration
	System     []string // names of system attributes
	Attributes []string // names of message attributes, or prefixes
}

// Delivery is a message on its way to one receiver.
type Delivery struct {
	Message *Message
	Out     wire.Message
}

// Waiter is a long poll that waits for something to deliver.
type Waiter struct {
	want Want
	Got  []Delivery
	done chan struct{} // closed when Got is filled, or nothing will come
}

// Take delivers up to w.Count visible messages.
func (q *Queue) Take(now time.Time, w Want) (got []Delivery) {
	next := q.oldest
	if q.FIFO {
		next = q.openGroups()
	}
	for len(got) < w.Count && !q.Full() {
		m := next()
		if m == nil {
			break
		}
		if q.expired(m, now) {
			q.Remove(m)
			continue
		}
		m.Receives++
		if m.Receives == 1 {
			m.First = now
		}
		q.Hide(m, now.Add(w.Visibility))
		got = append(got, Delivery{m, q.render(m, w)})
	}
	return got
}

// oldest takes the oldest message out of ready, or any where a fault says so.
func (q *Queue) oldest() *Message {
	for len(q.ready) > 0 {
		if i := q.Faults.Shuffle(q.Name, len(q.ready)); i > 0 {
			q.ready[0], q.ready[i] = q.ready[i], q.ready[0]
		}
		m := q.ready[0]
		q.ready[0] = nil
		q.ready = q.ready[1:]
		if m.State == Ready {
			return m
		}
	}
	return nil
}

// render shows m as its receiver asked to see it.
func (q *Queue) render(m *Message, w Want) wire.Message {
	out := wire.Message{
		MessageID:     m.ID,
		ReceiptHandle: q.handle(m),
		Body:          m.Body,
		BodySum:       wire.BodySum(m.Body),
		Attributes:    q.systemAttributes(m, w.System),
	}
	for name, a := range m.Attributes {
		if asked(w.Attributes, name) {
			if out.MessageAttributes == nil {
				out.MessageAttributes = map[string]wire.Attribute{}
			}
			out.MessageAttributes[name] = a
		}
	}
	out.AttributesSum = wire.AttributesSum(out.MessageAttributes)
	return out
}

// asked tells whether a message attribute is among the names of a request,
// which may be All, .* or a prefix with .* behind it.
func asked(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, isPrefix := strings.CutSuffix(n, ".*")
		return n == "All" || n == name || isPrefix && (prefix == "" || strings.HasPrefix(name, prefix+".") || name == prefix)
	})
}

func (q *Queue) systemAttributes(m *Message, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	all := map[string]string{
		"SenderId":                         q.Sender,
		"SentTimestamp":                    strconv.FormatInt(m.Sent, 10),
		"ApproximateReceiveCount":          strconv.Itoa(m.Receives),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.First.UnixMilli(), 10),
	}
	optional := map[string]string{"MessageGroupId": m.Group, "MessageDeduplicationId": m.Dedup, "DeadLetterQueueSourceArn": m.Source}
	if q.FIFO {
		optional["SequenceNumber"] = m.sequence()
	}
	if trace, ok := m.Trace["AWSTraceHeader"]; ok {
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

// Wait registers a long poll.
func (q *Queue) Wait(w Want) *Waiter {
	me := &Waiter{want: w, done: make(chan struct{})}
	q.waiters = append(q.waiters, me)
	return me
}

// Done is closed when Got is filled, or when there is no more to wait for.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Leave ends a long poll that may not have been served.
func (q *Queue) Leave(w *Waiter) {
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
}

// Return takes deliveries back that reached nobody, as if they had not been made.
func (q *Queue) Return(got []Delivery, now time.Time) {
	for _, d := range got {
		if d.Message.State == InFlight {
			d.Message.Receives--
			q.Hide(d.Message, now)
		}
	}
	q.Settle(now)
}
