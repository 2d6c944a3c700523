package source

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
	firstPollers = 5
	scaleEvery   = 200 * time.Millisecond
)

// Queue is what a mapping needs of SQS; *sqs.Client has it.
type Queue interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Mapping feeds a function from a standard queue.
type Mapping struct {
	QueueURL string
	// QueueARN stands in the events. Default: made from the last two parts of
	// the URL, account and name.
	QueueARN string
	Client   Queue
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

// Map begins to feed the function and goes on until the host is closed.
//
// Records whose batch succeeded are deleted; the others are left to their
// visibility timeout, and so to the queue's redrive policy. A receive is always
// open while there is room for another batch, so that a message reaches the
// function as soon as it is sent.
func Map(g Ground, m Mapping) error {
	if err := m.validate(); err != nil {
		return err
	}
	q := &queue{Mapping: m, ground: g, origin: originOf(m, g)}
	q.mu.Lock()
	defer q.mu.Unlock()
	for range min(firstPollers, m.MaxConcurrency) {
		if err := q.add(); err != nil {
			return err
		}
	}
	return nil
}

// queue is a mapping at work. Every poller takes one batch at a time from
// receive to delete; as many batches are under way as there are pollers busy.
type queue struct {
	Mapping
	ground Ground
	origin origin

	mu      sync.Mutex
	pollers int
	busy    int         // pollers that have a batch
	grown   time.Time   // when a poller was last added to the first ones
	growing *time.Timer // waits for scaleEvery to be over
}

// add starts a poller. Called with mu.
func (q *queue) add() error {
	err := q.ground.Feed(q.poll)
	if err == nil {
		q.pollers++
	}
	return err
}

// grow adds a poller if all have a batch: nobody is listening any more, and how
// much is left in the queue is anybody's guess. One that finds nothing goes
// again. Called with mu.
func (q *queue) grow() {
	if q.busy < q.pollers || q.pollers >= q.MaxConcurrency || q.growing != nil {
		return
	}
	if pause := scaleEvery - time.Since(q.grown); pause > 0 {
		q.growing = time.AfterFunc(pause, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.growing = nil
			q.grow()
		})
		return
	}
	q.grown = time.Now()
	_ = q.add() // a host that closes adds no poller
}

// surplus reports whether a poller that has found nothing should end, and if so
// counts it out. One always stays to listen.
func (q *queue) surplus() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pollers <= firstPollers || q.pollers-q.busy < 2 {
		return false
	}
	q.pollers--
	return true
}

func (q *queue) work(batch []types.Message) {
	q.mu.Lock()
	q.busy++
	q.grow()
	q.mu.Unlock()
	q.deliver(batch)
	q.mu.Lock()
	q.busy--
	q.mu.Unlock()
}

// poll is one poller's life.
func (q *queue) poll(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		batch, err := q.collect(ctx)
		if len(batch) > 0 {
			pause = 0
			q.work(batch)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if pause == 0 {
				q.ground.Say(q.Function.Name(), "receive from %s: %v", q.QueueURL, err)
			}
			pause = min(max(2*pause, q.ground.Backoff), 50*q.ground.Backoff)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		case q.surplus():
			return
		default:
			pause = 0
		}
	}
}

// collect receives one batch. With a window it goes on receiving until the
// window is over or the batch is full or as large as a payload may be. Messages
// received before an error or the end of ctx are returned with it.
func (q *queue) collect(ctx context.Context) ([]types.Message, error) {
	batch, err := q.receive(ctx, q.BatchSize, q.LongPoll)
	if err != nil || len(batch) == 0 || q.Window == 0 {
		return batch, err
	}
	end := time.Now().Add(q.Window)
	size := sizeOf(batch)
	for len(batch) < q.BatchSize && size < maxBatchBytes && ctx.Err() == nil {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		// SQS waits in whole seconds, so the window may be one second longer.
		left = (left + time.Second - 1).Truncate(time.Second)
		more, err := q.receive(ctx, q.BatchSize-len(batch), min(left, q.LongPoll))
		batch = append(batch, more...)
		size += sizeOf(more)
		if err != nil {
			return batch, err
		}
	}
	return batch, nil
}

func (q *queue) receive(ctx context.Context, most int, wait time.Duration) ([]types.Message, error) {
	out, err := q.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &q.QueueURL,
		MaxNumberOfMessages:         int32(min(most, 10)),
		WaitTimeSeconds:             int32(wait / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// deliver invokes the function with a batch and deletes what has succeeded. It
// does not stop with the pollers: a batch that has been received is finished.
func (q *queue) deliver(batch []types.Message) {
	ctx := context.Background()
	reply, err := q.Function.Invoke(ctx, q.origin.event(batch))
	if err != nil {
		if !errors.Is(err, q.ground.Closed) {
			q.ground.Say(q.Function.Name(), "batch of %d from %s left for later: %v", len(batch), q.origin.arn, err)
		}
		return
	}
	done := batch
	if q.ReportBatchItemFailures {
		var why string
		if done, why = succeeded(batch, reply); why != "" {
			q.ground.Say(q.Function.Name(), "whole batch of %d from %s left for later: %s", len(batch), q.origin.arn, why)
		}
	}
	q.delete(ctx, done)
}

// delete removes messages, ten at a time. What could not be deleted comes again:
// the queue promises to deliver at least once anyway.
func (q *queue) delete(ctx context.Context, done []types.Message) {
	for len(done) > 0 {
		some := done[:min(10, len(done))]
		done = done[len(some):]
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &q.QueueURL}
		for i := range some {
			id := fmt.Sprint(i)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: some[i].ReceiptHandle})
		}
		out, err := q.Client.DeleteMessageBatch(ctx, in)
		if err != nil {
			q.ground.Say(q.Function.Name(), "delete from %s: %v", q.origin.arn, err)
		} else if len(out.Failed) > 0 {
			q.ground.Say(q.Function.Name(), "delete from %s: %d of %d failed", q.origin.arn, len(out.Failed), len(some))
		}
	}
}
