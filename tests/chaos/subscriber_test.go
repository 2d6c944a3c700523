package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// subscriber is a webhook that is told of all events while everything is killed. It refuses some requests.
type subscriber struct {
	mu         sync.Mutex
	secret     string
	told       map[string]map[int64]workflow.ObservedEvent // by execution and sequence
	requests   int
	seen       map[string]bool // deliveries
	refused    int
	duplicates int // events that it was told of before
	problems   []string
}

// refuseOneIn is how many deliveries the subscriber takes for each that it refuses at first. It refuses none
// twice, since the next delay is longer than the test.
const refuseOneIn = 25

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // whoever sent it was killed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	var d views.DeliveryBody
	if err := json.Unmarshal(body, &d); err != nil {
		s.problems = append(s.problems, fmt.Sprintf("a delivery cannot be read: %v", err))
		return
	}
	again := s.seen[d.Delivery]
	if s.seen[d.Delivery] = true; !again && len(s.seen)%refuseOneIn == 0 {
		s.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if header := r.Header.Get(workflow.SignatureHeader); !signed(s.secret, header, body) {
		s.problems = append(s.problems, fmt.Sprintf("delivery %s is signed with %q", d.Delivery, header))
	}
	if s.told[d.Execution] == nil {
		s.told[d.Execution] = map[int64]workflow.ObservedEvent{}
	}
	last := d.After
	for _, e := range d.Events {
		if e.Sequence <= last || e.Sequence > d.Through {
			s.problems = append(s.problems, fmt.Sprintf("delivery %s has event %d after %d, up to %d", d.Delivery, e.Sequence, last, d.Through))
		}
		last = e.Sequence
		if _, again := s.told[d.Execution][e.Sequence]; again {
			s.duplicates++
		}
		s.told[d.Execution][e.Sequence] = e
	}
}

// signed reports whether a signature is one of a body.
func signed(secret, header string, body []byte) bool {
	at, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	var unix int64
	_, err := fmt.Sscan(at, &unix)
	return err == nil && header == workflow.Sign([]byte(secret), time.Unix(unix, 0), body)
}

// subscribe subscribes to the events of all executions, and waits until it is told of all.
func (f *fixture) subscribe(ctx context.Context) error {
	made, err := f.PutSubscription(ctx, "all", views.SubscriptionRequest{URL: f.hooks.URL})
	if err != nil {
		return err
	}
	if made.Secret == nil || made.Since == nil {
		return errors.New("the subscription has no secret, or does not say since when it is told")
	}
	f.subscriber.mu.Lock()
	f.subscriber.secret = *made.Secret
	f.subscriber.mu.Unlock()
	return sleep(ctx, time.Until(*made.Since))
}

// hiddenSeconds is how long a message of an event is hidden that a killed function has received. The stack has
// minutes, with which the queues have to be when it starts again.
const hiddenSeconds = 6

var stackHiddenSeconds = topology.VisibilityFactor * topology.FunctionTimeoutSeconds[topology.FunctionObserver]

// hideMessages sets for how long messages of events are hidden that a function has received.
func (f *fixture) hideMessages(seconds int) {
	f.t.Helper()
	for _, queue := range []string{topology.QueueEvents, topology.QueueHooksOut} {
		var found struct{ QueueUrl string } //nolint:revive // the name of the field
		if err := f.callQueues("GetQueueUrl", map[string]any{"QueueName": "lockstep-" + queue}, &found); err != nil {
			f.t.Errorf("the queue %s: %v", queue, err)
			return
		}
		if err := f.callQueues("SetQueueAttributes", map[string]any{"QueueUrl": found.QueueUrl, "Attributes": map[string]string{"VisibilityTimeout": strconv.Itoa(seconds)}}, nil); err != nil {
			f.t.Errorf("the queue %s: %v", queue, err)
		}
	}
}

func (f *fixture) callQueues(operation string, in map[string]any, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, f.queuesEndpoint(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }() // it was read
	if answer, err := io.ReadAll(reply.Body); err != nil || reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s: %w", operation, reply.Status, answer, errors.Join(err))
	} else if out != nil {
		return json.Unmarshal(answer, out)
	}
	return nil
}

// missing lists the events in histories of which the subscriber was not told, as other events, or that no history has.
func (s *subscriber) missing(all []observedExecution) (missing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	histories := map[string]bool{}
	for _, x := range all {
		histories[x.ID] = true
		told := s.told[x.ID]
		for _, e := range x.events {
			if got, ok := told[e.Sequence]; !ok || got.Type != e.Type || got.From != e.From || got.To != e.To || got.Step != e.Step || got.ID != fmt.Sprintf("%s:%d", x.ID, e.Sequence) || !got.At.Equal(e.At) {
				missing = append(missing, fmt.Sprintf("event %d of %s, %s, was told as %+v", e.Sequence, x.ID, e.Type, got))
			}
		}
		if len(told) > len(x.events) {
			missing = append(missing, fmt.Sprintf("%d events of %s were told, and its history has %d", len(told), x.ID, len(x.events)))
		}
	}
	for id := range s.told {
		if !histories[id] {
			missing = append(missing, "events of "+id+" were told, and there is no such execution")
		}
	}
	return missing
}
