package eventsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// What AWS does with a standard queue: five batches at a time to begin with,
// 300 a minute more while that is not enough.
const (
	initialPollers = 5
	scaleInterval  = 200 * time.Millisecond
)

// SQSClient is what a mapping needs of SQS; *sqs.Client has it.
type SQSClient interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Mapping feeds a function from a standard queue.
type Mapping struct {
	QueueURL string
	// QueueARN stands in the events. Default: made from the last two parts of
	// the URL, account and name.
	QueueARN string
	Client   SQSClient
	Function Function
	// BatchSize is the most records in one event: 1 to 10, to 10,000 with a
	// window of at least 1s. Default 10.
	BatchSize int
	// Window is how long a batch is collected, in whole seconds. Default 0: what
	// one receive brings.
	Window time.Duration
	// MaxConcurrency is the most batches under way at a time. Default: the
	// function'q.
	MaxConcurrency int
	// ReportBatchItemFailures lets the function fail single records.
	ReportBatchItemFailures bool
	// LongPoll is how long one receive waits. Default and at most 20s.
	LongPoll time.Duration
}

func (m *Mapping) validate() error {
	if m.QueueURL == "" || m.Client == nil || m.Function == nil {
		return errors.New("source: a mapping needs a queue, a client and a function")
	}
	m.BatchSize = cmp.Or(m.BatchSize, 10)
	m.MaxConcurrency = cmp.Or(m.MaxConcurrency, m.Function.MaxConcurrency())
	m.LongPoll = cmp.Or(m.LongPoll, 20*time.Second)
	switch {
	case m.BatchSize < 1 || m.BatchSize > 10_000 || m.BatchSize > 10 && m.Window < time.Second:
		return fmt.Errorf("source: batch size %d is not allowed with a window of %s", m.BatchSize, m.Window)
	case m.Window < 0 || m.Window > 5*time.Minute || m.Window%time.Second != 0:
		return fmt.Errorf("source: a window of %s is not whole seconds up to 5m", m.Window)
	case m.LongPoll < 0 || m.LongPoll > 20*time.Second || m.LongPoll%time.Second != 0:
		return fmt.Errorf("source: a long poll of %s is not whole seconds up to 20s", m.LongPoll)
	case m.MaxConcurrency < 1:
		return errors.New("source: a mapping needs room for one batch")
	}
	return nil
}

// StartMapping begins to feed the function and goes on until the host is closed.
//
// Records whose batch succeeded are deleted; the others are left to their
// visibility timeout, and so to the queue's redrive policy. A receive is always
// open while there is room for another batch, so that a message reaches the
// function as soon as it is sent.
func StartMapping(g Host, m Mapping) error {
	if err := m.validate(); err != nil {
		return err
	}
	q := &mappingRunner{Mapping: m, host: g, origin: newOrigin(m, g)}
	q.mu.Lock()
	defer q.mu.Unlock()
	for range min(initialPollers, m.MaxConcurrency) {
		if err := q.startPoller(); err != nil {
			return err
		}
	}
	return nil
}

// mappingRunner is a mapping at work. Every poller takes one batch at a time from
// receive to delete; as many batches are under way as there are pollers busy.
type mappingRunner struct {
	Mapping
	host   Host
	origin origin

	mu          sync.Mutex
	pollers     int
	busy        int         // pollers that have a batch
	lastScaleUp time.Time   // when a poller was last added to the first ones
	scaleTimer  *time.Timer // waits for scaleInterval to be over
}

// startPoller starts a poller. Called with mu.
func (q *mappingRunner) startPoller() error {
	err := q.host.Start(q.poll)
	if err == nil {
		q.pollers++
	}
	return err
}

// scaleUp adds a poller if all have a batch: nobody is listening any more, and how
// much is left in the queue is anybody's guess. One that finds nothing goes
// again. Called with mu.
func (q *mappingRunner) scaleUp() {
	if q.busy < q.pollers || q.pollers >= q.MaxConcurrency || q.scaleTimer != nil {
		return
	}
	if pause := scaleInterval - time.Since(q.lastScaleUp); pause > 0 {
		q.scaleTimer = time.AfterFunc(pause, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.scaleTimer = nil
			q.scaleUp()
		})
		return
	}
	q.lastScaleUp = time.Now()
	_ = q.startPoller() // a host that closes adds no poller
}

// stopSurplusPoller reports whether a poller that has found nothing should end, and if so
// counts it out. One always stays to listen.
func (q *mappingRunner) stopSurplusPoller() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pollers <= initialPollers || q.pollers-q.busy < 2 {
		return false
	}
	q.pollers--
	return true
}

func (q *mappingRunner) process(batch []types.Message) {
	q.mu.Lock()
	q.busy++
	q.scaleUp()
	q.mu.Unlock()
	q.invoke(batch)
	q.mu.Lock()
	q.busy--
	q.mu.Unlock()
}

// poll is one poller's life.
func (q *mappingRunner) poll(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		batch, err := q.receiveBatch(ctx)
		if len(batch) > 0 {
			pause = 0
			q.process(batch)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if pause == 0 {
				q.host.Logf(q.Function.Name(), "receive from %s: %v", q.QueueURL, err)
			}
			pause = min(max(2*pause, q.host.Backoff), 50*q.host.Backoff)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		case q.stopSurplusPoller():
			return
		default:
			pause = 0
		}
	}
}

// receiveBatch receives one batch. With a window it goes on receiving until the
// window is over or the batch is full or as large as a payload may be. Messages
// received before an error or the end of ctx are returned with it.
func (q *mappingRunner) receiveBatch(ctx context.Context) ([]types.Message, error) {
	batch, err := q.receive(ctx, q.BatchSize, q.LongPoll)
	if err != nil || len(batch) == 0 || q.Window == 0 {
		return batch, err
	}
	end := time.Now().Add(q.Window)
	size := batchBytes(batch)
	for len(batch) < q.BatchSize && size < maxBatchBytes && ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		// SQS waits in whole seconds, so the window may be one second longer.
		left = (left + time.Second - 1).Truncate(time.Second)
		more, err := q.receive(ctx, q.BatchSize-len(batch), min(left, q.LongPoll))
		batch = append(batch, more...)
		size += batchBytes(more)
		if err != nil {
			return batch, err
		}
	}
	return batch, nil
}

func (q *mappingRunner) receive(ctx context.Context, limit int, wait time.Duration) ([]types.Message, error) {
	out, err := q.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &q.QueueURL,
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

// invoke invokes the function with a batch and deletes what has succeeded. It
// does not stop with the pollers: a batch that has been received is finished.
func (q *mappingRunner) invoke(batch []types.Message) {
	ctx := context.Background()
	reply, err := q.Function.Invoke(ctx, q.origin.event(batch))
	if err != nil {
		if !errors.Is(err, q.host.ErrClosed) {
			q.host.Logf(q.Function.Name(), "batch of %d from %s left for later: %v", len(batch), q.origin.arn, err)
		}
		return
	}
	done := batch
	if q.ReportBatchItemFailures {
		var problem string
		if done, problem = successfulMessages(batch, reply); problem != "" {
			q.host.Logf(q.Function.Name(), "whole batch of %d from %s left for later: %s", len(batch), q.origin.arn, problem)
		}
	}
	q.deleteMessages(ctx, done)
}

// deleteMessages removes messages, ten at a time. What could not be deleted comes again:
// the queue promises to deliver at least once anyway.
func (q *mappingRunner) deleteMessages(ctx context.Context, done []types.Message) {
	for len(done) > 0 {
		chunk := done[:min(10, len(done))]
		done = done[len(chunk):]
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &q.QueueURL}
		for i := range chunk {
			id := fmt.Sprint(i)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: chunk[i].ReceiptHandle})
		}
		out, err := q.Client.DeleteMessageBatch(ctx, in)
		if err != nil {
			q.host.Logf(q.Function.Name(), "delete from %s: %v", q.origin.arn, err)
		} else if len(out.Failed) > 0 {
			q.host.Logf(q.Function.Name(), "delete from %s: %d of %d failed", q.origin.arn, len(out.Failed), len(chunk))
		}
	}
}
