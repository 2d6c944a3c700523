package deadletter

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Message is a received dead letter. It is hidden from other receivers until its visibility
// timeout ends.
type Message struct {
	ID       string // the same as in the source queue
	Handle   string
	Body     string
	Group    string // message group of its tenant, in queues that serve tenants in turn
	Receives int
	SentAt   time.Time
}

// Queue is a queue together with its dead-letter queue.
type Queue interface {
	// Receive receives up to n dead letters and hides them from other receivers for the
	// visibility timeout. An empty result means that no message is visible; others may be in
	// flight.
	Receive(ctx context.Context, n int, visibility time.Duration) ([]Message, error)
	// Count estimates the number of dead letters, including those in flight.
	Count(ctx context.Context) (int, error)
	// Release makes messages visible again at once.
	Release(ctx context.Context, messages []Message) error
	// Redrive sends a message to its source queue, then deletes the dead letter.
	Redrive(ctx context.Context, m Message) error
}

const (
	maxMessages       = 500              // read by one scan of a queue
	receiveBatch      = 10               // messages of one receive request
	scanTimeout       = 15 * time.Second // of all scans of one call together
	visibilityTimeout = 60 * time.Second // for which a scan hides what it has received
)

// scanQueue reads each dead letter of a queue once, and calls handle for those of the tenant.
// handle reports whether it has removed the message from the dead-letter queue. complete means that
// the scan has read everything; it is false while other receivers have messages in flight.
//
// The queue belongs to all tenants, and SQS can neither filter by tenant nor read without
// receiving. So received messages stay hidden during the scan, which makes the queue return others,
// and are released at its end. No message is consumed. Those of other tenants are neither shown nor
// moved, only hidden for the duration of the scan. If the scan ends early, messages of other
// tenants stay hidden until their visibility timeout ends, so that the next call gets past them.
// The growing receive count does no harm, since a dead-letter queue has no dead-letter queue of its
// own.
func (s *Service) scanQueue(ctx context.Context, tenant, name string, q Queue, until time.Time, handle func(Message, subject) (removed bool)) (complete bool, err error) {
	var kept, others []Message
	drained := false // the queue has no more visible messages
	defer func() {
		release := kept
		if drained || err != nil {
			release = append(release, others...)
		}
		if releaseErr := q.Release(context.WithoutCancel(ctx), release); releaseErr != nil {
			s.Log.WarnContext(ctx, "dead letters not released; they stay hidden until their visibility timeout", observe.Queue, name, observe.Err(releaseErr))
		}
	}()
	seen := map[string]bool{}
	for len(seen) < maxMessages && s.Now().Before(until) && ctx.Err() == nil {
		messages, err := q.Receive(ctx, min(receiveBatch, maxMessages-len(seen)), visibilityTimeout)
		if err != nil {
			return false, err
		}
		if len(messages) == 0 {
			drained = true
			n, err := q.Count(ctx)
			return err == nil && n <= len(kept)+len(others), err
		}
		for _, m := range messages {
			if seen[m.ID] {
				continue // delivered twice
			}
			seen[m.ID] = true
			about, readable := s.Decoder.subjectOf(name, m.Body)
			switch {
			case !readable || about.tenant != tenant:
				others = append(others, m)
			case !handle(m, about):
				kept = append(kept, m)
			}
		}
	}
	return false, ctx.Err()
}

// Decoder decodes the bodies of messages.
type Decoder struct {
	Wakeup       func(body string) (workflow.Wakeup, error)
	Pack         func(body string) (*workflow.PackMessage, error)
	Announcement func(body string) (workflow.Announcement, error)
	Delivery     func(body string) (*workflow.Delivery, error)
	BusEvent     func(body string) (workflow.BusEvent, error)
}

// subject is the tenant, execution, step and jobs of a message. An event has no execution.
type subject struct {
	tenant, execution, step string
	jobs                    []string
}

// subjectOf decodes a message of a queue. ok is false if it cannot be decoded; such a message
// belongs to no tenant.
func (d Decoder) subjectOf(queue, body string) (s subject, ok bool) {
	switch queue {
	case topology.QueueLifecycle:
		w, err := d.Wakeup(body)
		return subject{tenant: w.Tenant, execution: w.Execution}, err == nil
	case topology.QueueEvents:
		a, err := d.Announcement(body)
		return subject{tenant: a.Tenant, execution: a.Execution}, err == nil
	case topology.QueueHooksOut:
		a, err := d.Delivery(body)
		if err != nil {
			return subject{}, false
		}
		return subject{tenant: a.Tenant, execution: a.Execution}, true
	case topology.QueueHooksIn:
		e, err := d.BusEvent(body)
		return subject{tenant: e.Tenant}, err == nil
	}
	m, err := d.Pack(body)
	if err != nil {
		return subject{}, false
	}
	s = subject{tenant: m.Key.Tenant, execution: m.Key.Execution, step: m.Work.Step}
	for _, j := range m.Jobs {
		s.jobs = append(s.jobs, workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, j.Index, m.Key.Attempt))
	}
	return s, true
}
