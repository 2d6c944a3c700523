// Package eventsource invokes local functions from queues and on schedules, by the
// rules of AWS: mapping.go is the SQS event source mapping from receive to delete,
// batch.go the event made of a batch and the reply to it, schedule.go the EventBridge
// schedule. lambdahost.Host uses it in AddMapping and AddSchedule.
package eventsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Function is what an event source invokes.
type Function interface {
	Name() string
	MaxConcurrency() int
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// Host is what an event source needs of the process that runs it.
type Host struct {
	Region, Account string
	// Backoff is the pause after the first failed receive.
	Backoff time.Duration
	// Start runs f in a goroutine until its context ends, which is when the host
	// begins to shut down; the host waits for f to return. After that it returns
	// ErrClosed.
	Start func(f func(ctx context.Context)) error
	// Logf logs a message about a function.
	Logf func(function, format string, args ...any)
	// NewID makes the ids of events.
	NewID func() string
	// ErrClosed is the error of an invocation after shutdown.
	ErrClosed error
}

// AWS starts with five concurrent batches of a standard queue and adds up to 300 per
// minute while all of them are busy.
const (
	initialPollers = 5
	scaleInterval  = 200 * time.Millisecond
)

// SQSClient is what a mapping needs of SQS; *sqs.Client implements it.
type SQSClient interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Mapping invokes a function with the messages of a standard queue.
type Mapping struct {
	QueueURL string
	// QueueARN is the event source in the events. Default: made from the last two
	// parts of the URL, account and name.
	QueueARN string
	Client   SQSClient
	Function Function
	// BatchSize is the most records in one event: 1 to 10, or up to 10,000 with a
	// window of at least 1s. Default 10.
	BatchSize int
	// Window is how long a batch is collected, in whole seconds. Default 0: one
	// receive.
	Window time.Duration
	// MaxConcurrency is the most concurrent batches. Default: the function's.
	MaxConcurrency int
	// ReportBatchItemFailures lets the function report single records as failed.
	ReportBatchItemFailures bool
	// LongPoll is how long one receive waits, at most and by default 20s.
	LongPoll time.Duration
}

func (m *Mapping) validate() error {
	if m.QueueURL == "" || m.Client == nil || m.Function == nil {
		return errors.New("eventsource: a mapping needs a queue, a client and a function")
	}
	m.BatchSize = cmp.Or(m.BatchSize, 10)
	m.MaxConcurrency = cmp.Or(m.MaxConcurrency, m.Function.MaxConcurrency())
	m.LongPoll = cmp.Or(m.LongPoll, 20*time.Second)
	switch {
	case m.BatchSize < 1 || m.BatchSize > 10_000 || m.BatchSize > 10 && m.Window < time.Second:
		return fmt.Errorf("eventsource: batch size %d is not allowed with a window of %s", m.BatchSize, m.Window)
	case m.Window < 0 || m.Window > 5*time.Minute || m.Window%time.Second != 0:
		return fmt.Errorf("eventsource: a window of %s is not whole seconds up to 5m", m.Window)
	case m.LongPoll < 0 || m.LongPoll > 20*time.Second || m.LongPoll%time.Second != 0:
		return fmt.Errorf("eventsource: a long poll of %s is not whole seconds up to 20s", m.LongPoll)
	case m.MaxConcurrency < 1:
		return fmt.Errorf("eventsource: a maximum concurrency of %d is less than 1", m.MaxConcurrency)
	}
	return nil
}

// StartMapping starts to invoke the function and continues until the host is closed.
//
// It deletes the records that succeeded and leaves the others to their visibility timeout, and so
// to the queue's redrive policy. While another batch is allowed, a receive is always open, so that
// a message reaches the function as soon as it is sent.
func StartMapping(host Host, m Mapping) error {
	if err := m.validate(); err != nil {
		return err
	}
	r := &mappingRunner{Mapping: m, host: host, origin: newOrigin(m, host)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for range min(initialPollers, m.MaxConcurrency) {
		if err := r.startPoller(); err != nil {
			return err
		}
	}
	return nil
}

// mappingRunner runs a mapping. Each poller handles one batch at a time, from receive
// to delete.
type mappingRunner struct {
	Mapping
	host   Host
	origin origin

	mu          sync.Mutex
	pollers     int
	busy        int         // pollers that handle a batch
	lastScaleUp time.Time   // when a poller was last added
	scaleTimer  *time.Timer // set until scaleInterval has passed
}

// startPoller starts a poller. The caller holds mu.
func (r *mappingRunner) startPoller() error {
	err := r.host.Start(r.poll)
	if err == nil {
		r.pollers++
	}
	return err
}

// scaleUp adds a poller if all are busy: nobody receives then, and the queue may hold more. A
// surplus poller stops by itself. The caller holds mu.
func (r *mappingRunner) scaleUp() {
	if r.busy < r.pollers || r.pollers >= r.MaxConcurrency || r.scaleTimer != nil {
		return
	}
	if pause := scaleInterval - time.Since(r.lastScaleUp); pause > 0 {
		r.scaleTimer = time.AfterFunc(pause, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.scaleTimer = nil
			r.scaleUp()
		})
		return
	}
	r.lastScaleUp = time.Now()
	_ = r.startPoller() // fails only if the host is shutting down
}

// stopSurplusPoller reports whether a poller that received nothing should stop, and
// if so uncounts it. One idle poller always stays.
func (r *mappingRunner) stopSurplusPoller() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pollers <= initialPollers || r.pollers-r.busy < 2 {
		return false
	}
	r.pollers--
	return true
}

func (r *mappingRunner) process(batch []types.Message) {
	r.mu.Lock()
	r.busy++
	r.scaleUp()
	r.mu.Unlock()
	r.invoke(batch)
	r.mu.Lock()
	r.busy--
	r.mu.Unlock()
}

// poll runs one poller.
func (r *mappingRunner) poll(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		batch, err := r.receiveBatch(ctx)
		if len(batch) > 0 {
			pause = 0
			r.process(batch)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if pause == 0 {
				r.host.Logf(r.Function.Name(), "receive from %s: %v", path.Base(r.QueueURL), err)
			}
			pause = min(max(2*pause, r.host.Backoff), 50*r.host.Backoff)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		case r.stopSurplusPoller():
			return
		default:
			pause = 0
		}
	}
}

// receiveBatch receives one batch. With a window it receives until the window ends,
// the batch is full or its payload is as large as allowed. It returns the messages
// received before an error together with the error.
func (r *mappingRunner) receiveBatch(ctx context.Context) ([]types.Message, error) {
	batch, err := r.receive(ctx, r.BatchSize, r.LongPoll)
	if err != nil || len(batch) == 0 || r.Window == 0 {
		return batch, err
	}
	end := time.Now().Add(r.Window)
	size := batchBytes(batch)
	for len(batch) < r.BatchSize && size < maxBatchBytes && ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		// SQS waits in whole seconds, so the window may take one second longer.
		left = (left + time.Second - 1).Truncate(time.Second)
		more, err := r.receive(ctx, r.BatchSize-len(batch), min(left, r.LongPoll))
		batch = append(batch, more...)
		size += batchBytes(more)
		if err != nil {
			return batch, err
		}
	}
	return batch, nil
}

func (r *mappingRunner) receive(ctx context.Context, limit int, wait time.Duration) ([]types.Message, error) {
	out, err := r.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &r.QueueURL,
		MaxNumberOfMessages:         int32(min(limit, 10)),
		WaitTimeSeconds:             int32(wait / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// invoke invokes the function with a batch and deletes the records that succeeded.
// Shutdown does not interrupt it: a received batch is finished.
func (r *mappingRunner) invoke(batch []types.Message) {
	ctx := context.Background()
	reply, err := r.Function.Invoke(ctx, r.origin.event(batch))
	if err != nil {
		if !errors.Is(err, r.host.ErrClosed) {
			r.host.Logf(r.Function.Name(), "batch of %d from %s failed and will be received again: %v", len(batch), r.origin.arn, err)
		}
		return
	}
	done := batch
	if r.ReportBatchItemFailures {
		var problem string
		if done, problem = successfulMessages(batch, reply); problem != "" {
			r.host.Logf(r.Function.Name(), "batch of %d from %s failed and will be received again: %s", len(batch), r.origin.arn, problem)
		}
	}
	r.deleteMessages(ctx, done)
}

// deleteMessages deletes messages, ten per request. A message that cannot be deleted
// is received again, which at-least-once delivery allows.
func (r *mappingRunner) deleteMessages(ctx context.Context, done []types.Message) {
	for len(done) > 0 {
		chunk := done[:min(10, len(done))]
		done = done[len(chunk):]
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &r.QueueURL}
		for i := range chunk {
			id := fmt.Sprint(i)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: chunk[i].ReceiptHandle})
		}
		out, err := r.Client.DeleteMessageBatch(ctx, in)
		if err != nil {
			r.host.Logf(r.Function.Name(), "delete from %s: %v", r.origin.arn, err)
		} else if len(out.Failed) > 0 {
			r.host.Logf(r.Function.Name(), "delete from %s: %d of %d failed", r.origin.arn, len(out.Failed), len(chunk))
		}
	}
}
