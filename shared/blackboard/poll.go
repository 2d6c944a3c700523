package blackboard

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/worker/lasttry"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// longest is how long a poll may wait; turn how long it waits at one of several
// pools before it asks the next.
const (
	longest = 20 * time.Second
	turn    = time.Second
)

// Poll waits for a pack of one of the blocks and claims it for the worker; nil if
// none comes. A worker that is not known is registered by its poll. One that is
// counted as silent gets no pack before it has sent a heartbeat: a poll is none.
func (s *Service) Poll(ctx context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error) {
	pools, err := s.pools(ctx, c.Tenant, r.Blocks)
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx, c, r, pools[0]); err != nil {
		return nil, err
	}
	wait := longest
	if r.Wait != nil {
		wait = min(max(r.Wait.Std(), 0), longest)
	}
	until := s.Now().Add(wait)
	for n := 0; ; n++ {
		left := until.Sub(s.Now())
		if n >= len(pools) && left <= 0 {
			return nil, nil
		}
		if len(pools) > 1 {
			left = min(left, turn)
		}
		pool := pools[n%len(pools)]
		q, err := s.Pool(ctx, pool)
		if err != nil {
			return nil, err
		}
		deliveries, err := q.Within(ctx, 1, left)
		if err != nil {
			return nil, err
		}
		for _, d := range deliveries {
			offer, err := s.take(ctx, c, r, pool, q, d)
			if offer != nil || err != nil {
				return offer, err
			}
		}
		if len(deliveries) == 0 && left < time.Second {
			if until.Sub(s.Now()) < time.Second && n >= len(pools)-1 {
				return nil, nil // the queue waits for whole seconds only
			}
		}
	}
}

// admit lets a worker have packs, or says why it may not.
func (s *Service) admit(ctx context.Context, c workflow.Caller, r views.JobPoll, pool string) error {
	w, err := s.Roster.Worker(ctx, c.Tenant, r.Worker)
	if workflow.Is(err, workflow.CodeNotFound) {
		w, err = s.Roster.Register(ctx, workflow.Worker{Tenant: c.Tenant, ID: r.Worker, Pool: pool, Blocks: r.Blocks})
	}
	if err == nil && !roster.Admits(w.State) {
		err = workflow.Errorf(workflow.CodeConflict, "worker %s is %s: it gets no packs before it has sent a heartbeat", w.ID, w.State)
	}
	return err
}

// pools are the pools of the blocks that a worker names.
func (s *Service) pools(ctx context.Context, tenant string, names []string) ([]string, error) {
	var pools []string
	for _, name := range names {
		ref, err := workflow.ParseRef(name)
		if err != nil {
			return nil, err
		}
		versions, err := s.Registry.BlockVersions(ctx, tenant, ref.FullName())
		if err != nil {
			return nil, err
		}
		found := false
		for _, b := range versions {
			if ref.Matches(b.Version) {
				found = true
				if !slices.Contains(pools, poolOf(b)) {
					pools = append(pools, poolOf(b))
				}
			}
		}
		if !found {
			return nil, workflow.Errorf(workflow.CodeNotFound, "there is no block %s", name)
		}
	}
	if len(pools) == 0 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the poll names no block")
	}
	return pools, nil
}

// strange is how long a message that is not for this worker is left to others.
const strange = time.Second

// take claims a message's pack for the worker. nil means that there is nothing in
// it for him; then the message has been done with.
func (s *Service) take(ctx context.Context, c workflow.Caller, r views.JobPoll, pool string, q Queue, d worker.Delivery) (*views.PackOffer, error) {
	m, err := s.Decode(d.Body)
	if err != nil {
		s.Log.ErrorContext(ctx, "message cannot be read", "pool", pool, observe.MessageID, d.ID, observe.Receives, d.Receives, observe.Err(err))
		return nil, nil // it comes until the queue gives up on it
	}
	paper := &receipt{Version: receiptVersion, Pool: pool, Handle: d.Handle, Nonce: s.Nonce(), Body: d.Body}
	w := s.worker(r.Worker, paper.claim())
	_, p := s.ports()
	if !wanted(c.Tenant, r.Blocks, m) {
		return nil, w.Dispose(ctx, q, d, m, worker.Disposition{After: strange}, p)
	}
	loan, what, err := w.Lend(ctx, m, p)
	lasttry.Of(lasttry.Rules{MaxReceives: topology.MaxReceiveJobs, Lease: w.Lease, Queue: p.Queue, Log: s.Log}, d.ID, d.Receives, m).Failed(ctx, err)
	switch {
	case err != nil:
		return nil, err
	case loan == nil:
		return nil, w.Dispose(ctx, q, d, m, what, p)
	}
	if err := s.Roster.Workers.Hold(ctx, c.Tenant, r.Worker, m.Key.Held()); err != nil {
		s.warn(ctx, "a worker's pack is not shown", m, err, slog.String(observe.Worker, r.Worker))
	}
	return offer(loan, paper)
}

// wanted reports whether a pack is for this tenant's worker.
func wanted(tenant string, names []string, m *workflow.PackMessage) bool {
	block, err := workflow.ParseRef(m.Work.Block)
	w := workflow.Worker{Blocks: names}
	return err == nil && m.Key.Tenant == tenant && w.Serves(block)
}

func offer(l *worker.Loan, paper *receipt) (*views.PackOffer, error) {
	text, err := paper.text()
	if err != nil {
		return nil, err
	}
	o := &views.PackOffer{Pack: text, Token: l.Pack.Token, Lease: l.Pack.Lease.UTC()}
	for _, j := range l.Jobs {
		raw, err := httpblock.Request(j)
		if err != nil {
			return nil, err
		}
		o.Jobs = append(o.Jobs, raw)
	}
	return o, nil
}
