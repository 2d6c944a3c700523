package workerapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	maxPollWait    = 20 * time.Second // how long a poll may wait
	waitPerPool    = time.Second      // how long it waits at one of several pools before the next
	unmatchedDelay = time.Second      // how long a message for another worker stays hidden
)

// errDrained means that a worker was drained while its poll waited, so that what it has received is
// for another.
var errDrained = errors.New("the worker drains")

// Poll waits for a pack of one of the blocks and claims it for the worker; nil if none comes. It
// registers an unknown worker. A worker that is unreachable or offline gets no pack until it sends
// a heartbeat; a poll does not count as one.
//
// A poll with an attempt may be repeated under the same id: see [attempt].
func (s *Service) Poll(ctx context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error) {
	if err := checkRegion(r.Region); err != nil {
		return nil, err
	}
	pools, err := s.pools(ctx, c.Tenant, r.Region, r.Blocks)
	if err != nil {
		return nil, err
	}
	draining, err := s.admit(ctx, c, r, pools[0])
	if err != nil {
		return nil, err
	}
	a := s.newAttempt(c, r)
	if offer, answered, err := a.repeat(ctx); answered || err != nil {
		return offer, err
	}
	if draining {
		return &views.PackOffer{Drain: true}, nil
	}
	offer, err := s.awaitPack(ctx, a, pools)
	switch {
	case errors.Is(err, errDrained):
		if offer, err = a.endWithoutPack(ctx); offer == nil && err == nil {
			offer = &views.PackOffer{Drain: true}
		}
	case errors.Is(err, errAttemptTaken):
		offer, _, err = a.repeat(ctx)
	case offer == nil && err == nil:
		return a.endWithoutPack(ctx)
	}
	return offer, err
}

// awaitPack waits for a pack in the pools and claims it; nil if none comes in time.
func (s *Service) awaitPack(ctx context.Context, a *attempt, pools []string) (*views.PackOffer, error) {
	wait := maxPollWait
	if w := a.poll.Wait; w != nil {
		wait = min(max(w.Std(), 0), maxPollWait)
	}
	until := s.Now().Add(wait)
	for n := 0; ; n++ {
		remaining := until.Sub(s.Now())
		if n >= len(pools) && remaining <= 0 {
			return nil, nil
		}
		if len(pools) > 1 {
			remaining = min(remaining, waitPerPool)
		}
		pool := pools[n%len(pools)]
		q, err := s.PoolQueue(ctx, pool)
		if err != nil {
			return nil, err
		}
		deliveries, err := q.ReceiveWithin(ctx, 1, remaining)
		if err != nil {
			return nil, err
		}
		for _, d := range deliveries {
			offer, err := s.claimMessage(ctx, a, pool, q, d)
			if offer != nil || err != nil {
				return offer, err
			}
		}
		if len(deliveries) == 0 && remaining < time.Second {
			if until.Sub(s.Now()) < time.Second && n >= len(pools)-1 {
				return nil, nil // the queue waits for whole seconds only
			}
		}
	}
}

// admit reports why a worker may not receive packs, nil if it may or if it drains. It
// registers an unknown worker.
func (s *Service) admit(ctx context.Context, c workflow.Caller, r views.JobPoll, pool string) (draining bool, err error) {
	w, err := s.WorkerRegistry.Worker(ctx, c.Tenant, r.Worker)
	if workflow.Is(err, workflow.CodeNotFound) {
		w, err = s.WorkerRegistry.Register(ctx, workflow.Worker{Tenant: c.Tenant, ID: r.Worker, Pool: pool, Blocks: r.Blocks})
	}
	if draining = w.State == sm.WorkerDraining; err == nil && !draining && !workers.AcceptsPacks(w.State) {
		err = workflow.Errorf(workflow.CodeConflict, "worker %s is %s: send a heartbeat before polling for packs", w.ID, w.State)
	}
	return draining, err
}

// pools returns the pools, in the worker's region, of the blocks that it names.
func (s *Service) pools(ctx context.Context, tenant, region string, names []string) ([]string, error) {
	var pools []string
	for _, name := range names {
		ref, err := workflow.ParseRef(name)
		if err != nil {
			return nil, err
		}
		matching, err := s.poolsOf(ctx, tenant, ref)
		if err != nil {
			return nil, err
		}
		if len(matching) == 0 {
			return nil, workflow.Errorf(workflow.CodeNotFound, "there is no block %s", name)
		}
		for _, pool := range matching {
			pool = topology.PoolInRegion(pool, region)
			if !slices.Contains(pools, pool) {
				pools = append(pools, pool)
			}
		}
	}
	if len(pools) == 0 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the poll names no block: list the blocks that the worker serves")
	}
	return pools, nil
}

// claimMessage claims a message's pack for the worker. It returns nil if there is nothing for the
// worker to run; then the message has been settled.
func (s *Service) claimMessage(ctx context.Context, a *attempt, pool string, q PoolQueue, d worker.Delivery) (*views.PackOffer, error) {
	m, err := s.Decode(d.Body)
	if err != nil {
		s.Log.ErrorContext(ctx, "message cannot be decoded", "pool", pool, observe.MessageID, d.ID, observe.Receives, d.ReceiveCount, observe.Err(err))
		return nil, nil // it becomes a dead letter
	}
	rcpt := &receipt{Version: receiptVersion, Pool: pool, Handle: d.ReceiptHandle, Nonce: s.NewNonce(), Body: d.Body}
	ports, p := s.ports()
	if !servesPack(a.caller.Tenant, a.poll.Blocks, m) {
		w := s.sdkWorker(a.poll.Worker, rcpt.claimNonce())
		return nil, w.Settle(ctx, q, d, m, worker.Disposition{RetryAfter: unmatchedDelay}, p)
	}
	switch w, err := s.WorkerRegistry.Worker(ctx, a.caller.Tenant, a.poll.Worker); { // it may have been drained while it waited
	case err != nil:
		return nil, errors.Join(err, q.Defer(ctx, d, 0))
	case w.State == sm.WorkerDraining:
		return nil, errors.Join(errDrained, q.Defer(ctx, d, 0))
	}
	if err := a.save(ctx, ports.Packs, rcpt, m); err != nil {
		if errors.Is(err, errAttemptTaken) {
			err = errors.Join(err, q.Defer(ctx, d, 0)) // for another poll
		}
		return nil, err
	}
	return s.claimReceipt(ctx, a, q, d, m, rcpt, p)
}

// claimReceipt claims the pack of a receipt, with results like claimMessage.
func (s *Service) claimReceipt(ctx context.Context, a *attempt, q PoolQueue, d worker.Delivery, m *workflow.PackMessage, rcpt *receipt, p worker.Ports) (*views.PackOffer, error) {
	w := s.sdkWorker(a.poll.Worker, rcpt.claimNonce())
	lease, disposition, err := w.LeaseRemote(ctx, m, p)
	worker.NewFinalReceive(worker.FinalReceiveOptions{
		MaxReceives: topology.MaxReceiveJobs, LeaseDuration: w.Options().LeaseDuration, WakeupSender: p.Sender, Logger: s.Log,
	}, d.ID, d.ReceiveCount, m).ReportFailure(ctx, err)
	switch {
	case err != nil:
		return nil, err
	case lease == nil:
		return nil, w.Settle(ctx, q, d, m, disposition, p)
	}
	return s.offer(ctx, a, m, lease, rcpt)
}

// offer responds to a poll with a leased pack.
func (s *Service) offer(ctx context.Context, a *attempt, m *workflow.PackMessage, lease *worker.RemoteLease, rcpt *receipt) (*views.PackOffer, error) {
	if err := s.WorkerRegistry.Workers.AddClaimedPack(ctx, a.caller.Tenant, a.poll.Worker, m.Key.ClaimedPack()); err != nil {
		s.logWarning(ctx, "claimed pack not added to the worker registry", m, err, slog.String(observe.Worker, a.poll.Worker))
	}
	return newPackOffer(lease, rcpt)
}

// servesPack reports whether a worker of the tenant that names these blocks serves
// the pack.
func servesPack(tenant string, names []string, m *workflow.PackMessage) bool {
	block, err := workflow.ParseRef(m.Work.Block)
	w := workflow.Worker{Blocks: names}
	return err == nil && m.Key.Tenant == tenant && w.Serves(block)
}

// newPackOffer returns a leased pack as the API shows it.
func newPackOffer(l *worker.RemoteLease, rcpt *receipt) (*views.PackOffer, error) {
	text, err := rcpt.encode()
	if err != nil {
		return nil, err
	}
	o := &views.PackOffer{Pack: text, Token: l.Pack.Token, Lease: l.Pack.Lease.UTC()}
	for _, j := range l.Jobs {
		raw, err := httpblock.MarshalRequest(j)
		if err != nil {
			return nil, err
		}
		o.Jobs = append(o.Jobs, raw)
	}
	return o, nil
}
