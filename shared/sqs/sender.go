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

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Sender sends packs and wake-ups.
type Sender struct {
	parent  *Client
	options func(*awssqs.Options) // for every call: the meter
}

// The limits of SQS, and how often refused entries are sent again.
const (
	maxBatchEntries  = 10
	batchConcurrency = 8
	maxDelay         = 15 * time.Minute
	maxSendAttempts  = 4
	baseBackoff      = 50 * time.Millisecond

	// maxDuration is how long one request may take with all its attempts. It is far below the time of a
	// wake-up, so that a queue that does not answer is an outage rather than a wake-up that takes too long.
	maxDuration = 30 * time.Second
)

// SendPacks sends packs to the queues of their pools, each after its delay, and returns the keys of
// those that could not be sent. A pool without a queue is not an error. Other errors are returned
// after everything else has been sent.
func (s *Sender) SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error) {
	var pools []string // in order of appearance
	byPool := map[string][]int{}
	for i, p := range packs {
		if _, seen := byPool[p.Work.Pool]; !seen {
			pools = append(pools, p.Work.Pool)
		}
		byPool[p.Work.Pool] = append(byPool[p.Work.Pool], i)
	}
	for _, pool := range pools {
		unsent, sendErr := s.sendPacks(ctx, now, pool, packs, byPool[pool])
		for _, i := range unsent {
			failed = append(failed, packs[i].Key)
		}
		err = errors.Join(err, sendErr)
	}
	return failed, wrapError(err)
}

// sendPacks sends the packs with the given indexes to one pool and returns the
// indexes of those that could not be sent.
func (s *Sender) sendPacks(ctx context.Context, now time.Time, pool string, packs []*workflow.PackMessage, indexes []int) (unsent []int, err error) {
	url, err := s.parent.queueURL(ctx, now, pool)
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
	unsentEntries, cause := s.send(ctx, url, entries)
	for _, e := range unsentEntries {
		unsent = append(unsent, e.index)
	}
	if isQueueNotFound(cause) {
		s.parent.urls.markMissing(pool, now)
		cause = nil
	}
	return unsent, errors.Join(err, cause)
}

// SendWakeups sends wake-ups to the lifecycle queue, after the delay.
func (s *Sender) SendWakeups(ctx context.Context, after time.Duration, wakeups ...workflow.Wakeup) error {
	entries := make([]batchEntry, len(wakeups))
	for i, w := range wakeups {
		body, err := EncodeWakeup(w)
		if err != nil {
			return err
		}
		entries[i] = batchEntry{i, body, delaySeconds(after), w.Tenant}
	}
	_, err := s.send(ctx, s.parent.queues.Lifecycle, entries)
	return wrapError(err)
}

// SendAnnouncements sends announcements, after the delay.
func (s *Sender) SendAnnouncements(ctx context.Context, after time.Duration, announcements ...workflow.Announcement) error {
	entries := make([]batchEntry, len(announcements))
	for i, a := range announcements {
		body, err := EncodeAnnouncement(a)
		if err != nil {
			return err
		}
		entries[i] = batchEntry{i, body, delaySeconds(after), a.Tenant}
	}
	_, err := s.send(ctx, s.parent.queues.Events, entries)
	return wrapError(err)
}

// SendDeliveries sends deliveries to the queue for receivers.
func (s *Sender) SendDeliveries(ctx context.Context, deliveries ...*workflow.Delivery) error {
	entries := make([]batchEntry, len(deliveries))
	for i, d := range deliveries {
		body, err := EncodeDelivery(d)
		if err != nil {
			return err
		}
		entries[i] = batchEntry{i, body, 0, d.Tenant}
	}
	_, err := s.send(ctx, s.parent.queues.HooksOut, entries)
	return wrapError(err)
}

// QueuedWakeups returns the approximate number of wake-ups that could be received now.
func (s *Sender) QueuedWakeups(ctx context.Context) (int, error) {
	counts, err := queueCounts(ctx, s.parent.client, s.parent.queues.Lifecycle, []func(*awssqs.Options){s.options}, types.QueueAttributeNameApproximateNumberOfMessages)
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

type batchEntry struct {
	index int
	body  string
	delay int32 // seconds
	group string
}

// delaySeconds returns a delay in whole seconds, rounded up, so that nothing arrives before its
// time.
func delaySeconds(d time.Duration) int32 {
	return wholeSeconds(d, maxDelay)
}

// wholeSeconds rounds d up to whole seconds, from 0 to limit.
func wholeSeconds(d, limit time.Duration) int32 {
	return int32((min(max(d, 0), limit) + time.Second - 1) / time.Second)
}

// send sends entries in as few batches as the limits allow, several at a time. It
// returns the entries that the queue did not accept, and the last error.
func (s *Sender) send(ctx context.Context, url string, entries []batchEntry) (left []batchEntry, err error) {
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
	var aborted atomic.Bool // the queue is missing or does not answer, or the context has ended: nothing more can be sent
	// The callback runs for every batch, so that none is left out of unsent; ctx ends
	// the calls.
	_ = parallel.Each(context.WithoutCancel(ctx), batchConcurrency, len(batches), func(_ context.Context, i int) error {
		if aborted.Load() {
			unsent[i] = batches[i]
			return nil
		}
		within, cancel := context.WithTimeout(ctx, maxDuration)
		defer cancel()
		unsent[i], errs[i] = s.sendBatch(within, url, batches[i])
		if isQueueNotFound(errs[i]) || within.Err() != nil {
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

// sendBatch sends one batch. It sends entries again that SQS refused for an internal reason.
func (s *Sender) sendBatch(ctx context.Context, url string, entries []batchEntry) (left []batchEntry, err error) {
	var refused []batchEntry
	for try := 0; ; try++ {
		in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
		for i := range entries {
			e := &entries[i]
			one := types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: &e.body, DelaySeconds: e.delay,
			}
			if s.parent.queues.Fair && messageGroupPattern.MatchString(e.group) {
				one.MessageGroupId = &e.group
			}
			in.Entries = append(in.Entries, one)
		}
		out, callErr := s.parent.client.SendMessageBatch(ctx, in, s.options)
		if callErr != nil {
			return append(refused, entries...), callErr
		}
		var retryable []batchEntry
		for _, f := range out.Failed {
			i, parseErr := strconv.Atoi(aws.ToString(f.Id))
			if parseErr != nil || i < 0 || i >= len(entries) {
				continue
			}
			err = workflow.Errorf(workflow.CodeUnavailable, "the queue refused a message: %s", aws.ToString(f.Code))
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

// messageGroupPattern matches the message groups that SQS accepts.
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
