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

// Blackboard is the queues.
type Blackboard struct {
	client *awssqs.Client
	queues Queues
	found  *addresses
}

// Open makes a Blackboard. It calls nothing.
func Open(client *awssqs.Client, queues Queues) *Blackboard {
	return &Blackboard{client: client, queues: queues, found: newAddresses(queues.Pools)}
}

// With is the board as one piece of work sees it: what it sends is counted into
// m, or nowhere if m is nil.
func (b *Blackboard) With(m *cost.Meter) *Board { return &Board{open: b, meter: m} }

// Board sends.
type Board struct {
	open  *Blackboard
	meter *cost.Meter
}

// What SQS allows, and how often entries that it did not take are sent again.
const (
	batchEntries   = 10
	batchesAtATime = 8
	maxDelay       = 15 * time.Minute
	sendTries      = 4
	sendPause      = 50 * time.Millisecond
)

// Offer sends packs to the queues of their pools, each after its delay, and
// returns the keys of those that could not be sent. A pool without a queue is no
// error. Other trouble is, after everything that can be sent has been.
func (b *Board) Offer(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error) {
	var pools []string // in order of appearance
	byPool := map[string][]int{}
	for i, p := range packs {
		if _, seen := byPool[p.Work.Pool]; !seen {
			pools = append(pools, p.Work.Pool)
		}
		byPool[p.Work.Pool] = append(byPool[p.Work.Pool], i)
	}
	for _, pool := range pools {
		unsent, trouble := b.offer(ctx, now, pool, packs, byPool[pool])
		for _, i := range unsent {
			failed = append(failed, packs[i].Key)
		}
		err = errors.Join(err, trouble)
	}
	return failed, Typed(err)
}

func (b *Board) offer(ctx context.Context, now time.Time, pool string, packs []*workflow.PackMessage, which []int) (unsent []int, err error) {
	url, err := b.address(ctx, now, pool)
	if err != nil || url == "" {
		return which, err
	}
	var entries []entry
	for _, i := range which {
		body, trouble := EncodePack(packs[i])
		if trouble != nil {
			unsent, err = append(unsent, i), errors.Join(err, trouble)
			continue
		}
		entries = append(entries, entry{i, body, delay(packs[i].NotBefore.Sub(now)), packs[i].Key.Tenant})
	}
	left, trouble := b.send(ctx, url, entries)
	for _, e := range left {
		unsent = append(unsent, e.index)
	}
	if doesNotExist(trouble) {
		b.open.found.forget(pool, now)
		trouble = nil
	}
	return unsent, errors.Join(err, trouble)
}

// Notify sends looks to the lifecycle queue after the delay.
func (b *Board) Notify(ctx context.Context, after time.Duration, looks ...workflow.Look) error {
	entries := make([]entry, len(looks))
	for i, l := range looks {
		body, err := EncodeLook(l)
		if err != nil {
			return err
		}
		entries[i] = entry{i, body, delay(after), l.Tenant}
	}
	_, err := b.send(ctx, b.open.queues.Lifecycle, entries)
	return Typed(err)
}

type entry struct {
	index int
	body  string
	delay int32 // seconds
	group string
}

// delay is in whole seconds, rounded up: nothing may come before its time.
func delay(d time.Duration) int32 {
	d = min(max(d, 0), maxDelay)
	return int32((d + time.Second - 1) / time.Second)
}

// send sends entries in as few batches as the limits allow, some at a time. It
// returns those that the queue did not take; err is the last trouble if there are
// any.
func (b *Board) send(ctx context.Context, url string, entries []entry) (left []entry, err error) {
	var batches [][]entry
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && n < batchEntries && (n == 0 || size+len(entries[n].body) <= MaxBody) {
			size += len(entries[n].body)
			n++
		}
		batches, entries = append(batches, entries[:n]), entries[n:]
	}
	unsent, trouble := make([][]entry, len(batches)), make([]error, len(batches))
	var gone atomic.Bool // the queue is, or whoever asks: nothing more can be sent
	// Each batch is called for, so that none is forgotten; ctx ends them.
	_ = parallel.Each(context.WithoutCancel(ctx), batchesAtATime, len(batches), func(_ context.Context, i int) error {
		if gone.Load() {
			unsent[i] = batches[i]
			return nil
		}
		unsent[i], trouble[i] = b.batch(ctx, url, batches[i])
		if doesNotExist(trouble[i]) || ctx.Err() != nil {
			gone.Store(true)
		}
		return nil
	})
	for i := range batches {
		if left = append(left, unsent[i]...); trouble[i] != nil {
			err = trouble[i]
		}
	}
	return left, err
}

// batch sends one batch, and again those of its entries that SQS did not take
// through no fault of theirs.
func (b *Board) batch(ctx context.Context, url string, entries []entry) (left []entry, err error) {
	var refused []entry
	for try := 0; ; try++ {
		in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
		for i := range entries {
			e := &entries[i]
			one := types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: &e.body, DelaySeconds: e.delay,
			}
			if b.open.queues.Fair && groupable.MatchString(e.group) {
				one.MessageGroupId = &e.group
			}
			in.Entries = append(in.Entries, one)
		}
		out, trouble := b.open.client.SendMessageBatch(ctx, in, b.options)
		if trouble != nil {
			return append(refused, entries...), trouble
		}
		var again []entry
		for _, f := range out.Failed {
			i, bad := strconv.Atoi(aws.ToString(f.Id))
			if bad != nil || i < 0 || i >= len(entries) {
				continue
			}
			err = workflow.Errorf(workflow.CodeUnavailable, "the queue did not take a message: %s", aws.ToString(f.Code))
			if f.SenderFault {
				refused = append(refused, entries[i])
			} else {
				again = append(again, entries[i])
			}
		}
		if len(again) == 0 || try+1 == sendTries || !pause(ctx, try) {
			if left = slices.Concat(refused, again); len(left) == 0 {
				err = nil
			}
			return left, err
		}
		entries = again
	}
}

// groupable is what SQS takes as a message group.
var groupable = regexp.MustCompile("^[A-Za-z0-9!\"#$%&'()*+,./:;<=>?@\\[\\]^_`{|}~\\\\-]{1,128}$")

// pause waits with full jitter; false if the context ends first.
func pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(rand.N(sendPause << try))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Typed gives an error of the SDK a code; ours have theirs.
func Typed(err error) error {
	var ours *workflow.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the queues do not answer", Cause: err}
}
