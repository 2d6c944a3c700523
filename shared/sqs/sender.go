package sqs

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Client is the queues.
type Client struct {
	client *awssqs.Client
	queues Queues
	urls   *urlCache
}

// Open makes a Blackboard. It calls nothing.
func Open(client *awssqs.Client, queues Queues) *Client {
	return &Client{client: client, queues: queues, urls: newURLCache(queues.Pools)}
}

// WithMeter is the board as one piece of work sees it: what it sends is counted into
// m, or nowhere if m is nil.
func (b *Client) WithMeter(m *cost.Meter) *Sender { return &Sender{parent: b, meter: m} }

// Sender sends.
type Sender struct {
	parent *Client
	meter  *cost.Meter
}

// What SQS allows, and how often entries that it did not take are sent again.
const (
	maxBatchEntries  = 10
	batchConcurrency = 8
	maxDelay         = 15 * time.Minute
	maxSendAttempts  = 4
	baseBackoff      = 50 * time.Millisecond
)

// SendPacks sends packs to the queues of their pools, each after its delay, and
// returns the keys of those that could not be sent. A pool without a queue is no
// error. Other trouble is, after everything that can be sent has been.
func (b *Sender) SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error) {
	var pools []string // in order of appearance
	byPool := map[string][]int{}
	for i, p := range packs {
		if _, seen := byPool[p.Work.Pool]; !seen {
			pools = append(pools, p.Work.Pool)
		}
		byPool[p.Work.Pool] = append(byPool[p.Work.Pool], i)
	}
	for _, pool := range pools {
		unsent, sendErr := b.sendPacks(ctx, now, pool, packs, byPool[pool])
		for _, i := range unsent {
			failed = append(failed, packs[i].Key)
		}
		err = errors.Join(err, sendErr)
	}
	return failed, wrapError(err)
}

func (b *Sender) sendPacks(ctx context.Context, now time.Time, pool string, packs []*workflow.PackMessage, indexes []int) (unsent []int, err error) {
	url, err := b.queueURL(ctx, now, pool)
	if err != nil || url == "" {
		return indexes, err
	}
	var entries []batchEntry
	for _, i := range indexes {
		body, cause := EncodePack(packs[i])
		if cause != nil {
			unsent, err = append(unsent, i), errors.Join(err, cause)
			continue
		}
		entries = append(entries, batchEntry{i, body, delaySeconds(packs[i].NotBefore.Sub(now)), packs[i].Key.Tenant})
	}
	unsentEntries, cause := b.send(ctx, url, entries)
	for _, e := range unsentEntries {
		unsent = append(unsent, e.index)
	}
	if isQueueNotFound(cause) {
		b.parent.urls.markMissing(pool, now)
		cause = nil
	}
	return unsent, errors.Join(err, cause)
}

// SendWakeups sends looks to the lifecycle queue after the delay.
func (b *Sender) SendWakeups(ctx context.Context, after time.Duration, looks ...workflow.Wakeup) error {
	entries := make([]batchEntry, len(looks))
	for i, l := range looks {
		body, err := EncodeWakeup(l)
		if err != nil {
			return err
		}
		entries[i] = batchEntry{i, body, delaySeconds(after), l.Tenant}
	}
	_, err := b.send(ctx, b.parent.queues.Lifecycle, entries)
	return wrapError(err)
}

type batchEntry struct {
	index int
	body  string
	delay int32 // seconds
	group string
}

// delaySeconds is in whole seconds, rounded up: nothing may come before its time.
func delaySeconds(d time.Duration) int32 {
	d = min(max(d, 0), maxDelay)
	return int32((d + time.Second - 1) / time.Second)
}

// send sends entries in as few batches as the limits allow, some at a time. It
// returns those that the queue did not take; err is the last trouble if there are
// any.
func (b *Sender) send(ctx context.Context, url string, entries []batchEntry) (left []batchEntry, err error) {
	var batches [][]batchEntry
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && n < maxBatchEntries && (n == 0 || size+len(entries[n].body) <= maxBody) {
			size += len(entries[n].body)
			n++
		}
		batches, entries = append(batches, entries[:n]), entries[n:]
	}
	unsent, errs := make([][]batchEntry, len(batches)), make([]error, len(batches))
	var aborted atomic.Bool // the queue is, or whoever asks: nothing more can be sent
	// Each batch is called for, so that none is forgotten; ctx ends them.
	_ = parallel.Each(context.WithoutCancel(ctx), batchConcurrency, len(batches), func(_ context.Context, i int) error {
		if aborted.Load() {
			unsent[i] = batches[i]
			return nil
		}
		unsent[i], errs[i] = b.sendBatch(ctx, url, batches[i])
		if isQueueNotFound(errs[i]) || ctx.Err() != nil {
			aborted.Store(true)
		}
		return nil
	})
	for i := range batches {
		if left = append(left, unsent[i]...); errs[i] != nil {
			err = errs[i]
		}
	}
	return left, err
}

// sendBatch sends one batch, and again those of its entries that SQS did not take
// through no fault of theirs.
func (b *Sender) sendBatch(ctx context.Context, url string, entries []batchEntry) (left []batchEntry, err error) {
	var refused []batchEntry
	for try := 0; ; try++ {
		in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
		for i := range entries {
			e := &entries[i]
			one := types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: &e.body, DelaySeconds: e.delay,
			}
			if b.parent.queues.Fair && messageGroupPattern.MatchString(e.group) {
				one.MessageGroupId = &e.group
			}
			in.Entries = append(in.Entries, one)
		}
		out, callErr := b.parent.client.SendMessageBatch(ctx, in, b.options)
		if callErr != nil {
			return append(refused, entries...), callErr
		}
		var retryable []batchEntry
		for _, f := range out.Failed {
			i, parseErr := strconv.Atoi(aws.ToString(f.Id))
			if parseErr != nil || i < 0 || i >= len(entries) {
				continue
			}
			err = workflow.Errorf(workflow.CodeUnavailable, "the queue did not take a message: %s", aws.ToString(f.Code))
			if f.SenderFault {
				refused = append(refused, entries[i])
			} else {
				retryable = append(retryable, entries[i])
			}
		}
		if len(retryable) == 0 || try+1 == maxSendAttempts || !backoff(ctx, try) {
			if left = slices.Concat(refused, retryable); len(left) == 0 {
				err = nil
			}
			return left, err
		}
		entries = retryable
	}
}

// messageGroupPattern is what SQS takes as a message group.
var messageGroupPattern = regexp.MustCompile("^[A-Za-z0-9!\"#$%&'()*+,./:;<=>?@\\[\\]^_`{|}~\\\\-]{1,128}$")

// backoff waits with full jitter; false if the context ends first.
func backoff(ctx context.Context, try int) bool {
	timer := time.NewTimer(rand.N(baseBackoff << try))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// wrapError gives an error of the SDK a code; ours have theirs.
func wrapError(err error) error {
	var ours *workflow.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the queues do not answer", Cause: err}
}
