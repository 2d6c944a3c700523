package harness

import (
	"context"
	"net/http"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Received is what a receiver of events got: a request to a webhook, an entry of a bus or a message
// to a topic.
type Received struct {
	To, Type string // Type of an entry of a bus, subject of a message
	Header   map[string]string
	Body     []byte
}

// receivers records what is sent to the receivers of events. Their answers follow a script.
type receivers struct{ s *Harness }

// Receivers returns the receivers for the engine's observer.
func (s *Harness) Receivers() engine.Receivers { return receivers{s} }

func (r receivers) answer(got Received) (status int, err error) {
	crash := r.s.openView().Crashing("receiver")
	status = http.StatusOK
	if r.s.Receiver != nil {
		status, err = r.s.Receiver(got)
	}
	if err == nil && status < 300 {
		r.s.Receipts = append(r.s.Receipts, got)
	}
	crash()
	return status, err
}

// Post is a request to a webhook.
func (r receivers) Post(_ context.Context, url string, header map[string]string, body []byte) (int, error) {
	return r.answer(Received{To: url, Header: header, Body: body})
}

// PutEvents puts entries on a bus.
func (r receivers) PutEvents(_ context.Context, bus string, entries []engine.BusEntry) error {
	for _, e := range entries {
		if status, err := r.answer(Received{To: bus, Type: e.Type, Body: e.Detail}); err != nil || status >= 300 {
			return workflow.Errorf(workflow.CodeUnavailable, "the bus has answered with status %d: %v", status, err)
		}
	}
	return nil
}

// Publish sends a message to a topic.
func (r receivers) Publish(_ context.Context, topic, subject, message string) error {
	if status, err := r.answer(Received{To: topic, Type: subject, Body: []byte(message)}); err != nil || status >= 300 {
		return workflow.Errorf(workflow.CodeUnavailable, "the topic has answered with status %d: %v", status, err)
	}
	return nil
}

// deliverObserved delivers a message of the subscriptions.
func (s *Harness) deliverObserved() bool {
	ctx := context.Background()
	if m, ok := s.EventsQueue().Receive(visibilityTimeout); ok {
		var retryAfter time.Duration
		err := s.runHandler(func() (err error) {
			retryAfter, err = s.Engine.PublishEvents(ctx, m.Announcement())
			return err
		})
		switch {
		case err == nil || m.Receives >= topology.MaxReceiveEvents:
			s.EventsQueue().Delete(m)
		case retryAfter > 0:
			s.EventsQueue().ChangeVisibility(m, retryAfter)
		}
		return true
	}
	m, ok := s.HooksQueue().Receive(visibilityTimeout)
	if !ok {
		return false
	}
	var retryAfter time.Duration
	err := s.runHandler(func() (err error) {
		retryAfter, err = s.Engine.Deliver(ctx, receivers{s}, m.Delivery(), m.Receives)
		return err
	})
	switch {
	case err == nil:
		s.HooksQueue().Delete(m)
	case m.Receives >= topology.MaxReceiveHooksOut:
		s.HooksQueue().Delete(m)
		s.DeadDeliveries = append(s.DeadDeliveries, m)
	case retryAfter >= 12*time.Hour:
		s.Errorf("a delivery is to be tried again after %s: a queue refuses to hide a message until twelve hours after it was received", retryAfter)
	case retryAfter > 0:
		s.HooksQueue().ChangeVisibility(m, retryAfter)
	}
	return true
}

// RedriveDeliveries redrives the deliveries that have become dead letters.
func (s *Harness) RedriveDeliveries() {
	for _, m := range s.DeadDeliveries {
		s.HooksQueue().Send(m.Body, s.Now())
	}
	s.DeadDeliveries = nil
}

// queues returns all queues of the world.
func (s *Harness) queues() []*sim.Queue {
	return []*sim.Queue{s.LifecycleQueue(), s.workerQueue(), s.EventsQueue(), s.HooksQueue()}
}
