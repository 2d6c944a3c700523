package stage

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A worker's thresholds.
const (
	lease        = time.Minute
	skew         = 2 * time.Second
	maxTakeovers = 5
)

// visit is one worker at one pack.
type visit struct {
	s    *Stage
	view sim.View
	m    *workflow.PackMessage
	p    *workflow.Pack // as this worker has claimed it
}

// work is a worker's way with a message. again asks for it to come back later.
func (s *Stage) work(ctx context.Context, m *workflow.PackMessage) (again time.Duration, err error) {
	now := s.Now()
	if now.After(m.NotAfter) {
		return 0, nil
	}
	if m.NotBefore.After(now) {
		return m.NotBefore.Sub(now), nil
	}
	v := &visit{s, s.Open(), m, s.claimOf(m)}
	if m.Work.Pure {
		v.run(0, len(v.p.Jobs))
		v.p.State, v.p.FinishedAt = workflow.PackFinished, s.Now()
		ok, old, err := v.view.Packs.FinishUnclaimed(ctx, v.p)
		if err != nil {
			return 0, err
		}
		if ok {
			old = v.p
		}
		if !old.Final() {
			return old.Lease.Sub(now), nil
		}
		return 0, v.after(ctx, old)
	}
	ok, old, err := v.view.Packs.Claim(ctx, v.p)
	if err != nil {
		return 0, err
	}
	if ok {
		return 0, v.jobs(ctx)
	}
	switch workflow.JudgeClaim(old, now, skew, maxTakeovers) {
	case workflow.ClaimFinal:
		return 0, v.after(ctx, old)
	case workflow.ClaimLive:
		return max(time.Second, old.Lease.Add(skew+time.Second).Sub(now)), nil
	case workflow.ClaimEngines:
		return 0, nil
	}
	v.takeOver(old)
	if ok, _, err = v.view.Packs.TakeOver(ctx, old, v.p); err != nil || !ok {
		return hidden, err
	}
	return 0, v.jobs(ctx)
}

// claimOf is what a first claim writes.
func (s *Stage) claimOf(m *workflow.PackMessage) *workflow.Pack {
	now := s.Now()
	p := &workflow.Pack{
		Key: m.Key, State: workflow.PackClaimed, Token: 1, Lease: now.Add(lease), Nonce: s.Nonce(),
		Worker: "w", ClaimedAt: now,
	}
	for n, j := range m.Jobs {
		rec := workflow.JobRecord{Index: j.Index, Code: workflow.CodeNone}
		if m.Work.Repeatable() || n == 0 {
			rec.Code, rec.StartedAt = workflow.CodeStarted, now
		}
		p.Jobs = append(p.Jobs, rec)
	}
	return p
}

// takeOver goes on from an expired claim. What was started and must not be
// repeated is not known.
func (v *visit) takeOver(old *workflow.Pack) {
	v.p.Token, v.p.ClaimedAt, v.p.Jobs = old.Token+1, old.ClaimedAt, old.Jobs
	for i := range v.p.Jobs {
		if rec := &v.p.Jobs[i]; rec.Code == workflow.CodeStarted && !v.m.Work.Repeatable() {
			rec.Code, rec.EndedAt = workflow.CodeUnknown, v.s.Now()
		}
	}
}

// jobs runs what is open in a pack that was claimed, and finishes it.
func (v *visit) jobs(ctx context.Context) error {
	for i := range v.p.Jobs {
		rec := &v.p.Jobs[i]
		mine := v.m.Work.Repeatable() && rec.Code == workflow.CodeStarted || v.p.Token == 1 && i == 0
		if rec.Code != workflow.CodeNone && !mine {
			continue
		}
		if rec.Code == workflow.CodeNone {
			rec.Code, rec.StartedAt = workflow.CodeStarted, v.s.Now()
		}
		if i > 0 || !mine {
			v.p.Lease = v.s.Now().Add(lease)
			ok, old, err := v.view.Packs.Extend(ctx, v.p)
			if err != nil {
				return err
			}
			if !ok && old != nil && old.Cancel && old.Token == v.p.Token && !old.Final() {
				return v.release(ctx, i)
			}
			if !ok {
				return workflow.Errorf(workflow.CodeClaimLost, "the claim is lost")
			}
		}
		v.run(i, i+1)
	}
	v.p.State, v.p.FinishedAt = workflow.PackFinished, v.s.Now()
	return v.finish(ctx)
}

// release ends a pack that the engine wants ended, before its job number from.
func (v *visit) release(ctx context.Context, from int) error {
	for i := from; i < len(v.p.Jobs); i++ {
		switch rec := &v.p.Jobs[i]; {
		case rec.Code != workflow.CodeStarted && rec.Code != workflow.CodeNone:
		case v.m.Work.Repeatable() && v.p.Token > 1:
			rec.Code = workflow.CodeUnknown // somebody before may have started it
		default:
			rec.Code = workflow.CodeNotExecuted
		}
	}
	v.p.State, v.p.FinishedAt = workflow.PackCancelled, v.s.Now()
	return v.finish(ctx)
}

func (v *visit) finish(ctx context.Context) error {
	ok, _, err := v.view.Packs.Finish(ctx, v.p)
	if err != nil {
		return err
	}
	if !ok {
		return workflow.Errorf(workflow.CodeClaimLost, "the claim is lost")
	}
	return v.after(ctx, v.p)
}

// run calls the block for some jobs and keeps what comes of it.
func (v *visit) run(from, to int) {
	for i := from; i < to; i++ {
		rec := &v.p.Jobs[i]
		in := v.m.Jobs[slices.IndexFunc(v.m.Jobs, func(j workflow.JobInput) bool { return j.Index == rec.Index })]
		o := v.s.call(v.m, v.p.Token, in)
		rec.EndedAt = v.s.Now()
		if o.Fail != "" {
			rec.Code, rec.Outcome = workflow.CodeFail, sm.OutcomeError
			rec.Failure = &workflow.Failure{Code: o.Fail, Message: "as the script says", Retryable: o.Retryable}
			continue
		}
		rec.Code, rec.Outcome, rec.Result = workflow.CodeOK, sm.OutcomeOK, o.Result
	}
}

// call is the block.
func (s *Stage) call(m *workflow.PackMessage, token int, in workflow.JobInput) Outcome {
	c := Call{
		Job: workflow.JobID(m.Key.Execution, m.Key.RunSeq, in.Index, m.Key.Attempt), Kind: m.Work.Kind, Step: m.Work.Step,
		Attempt: m.Key.Attempt, Fence: workflow.Fence(in.Token, m.Key.RunSeq, m.Key.Attempt, token), Input: in,
		Execution: m.Key.Execution, Pure: m.Work.Pure, Repeatable: m.Work.Repeatable(),
	}
	if in.Entity != nil {
		c.Entity = in.Entity.ID
	}
	s.Called = append(s.Called, c)
	var o Outcome
	if s.Script != nil {
		if scripted := s.Script(c); scripted != nil {
			o = *scripted
		}
	}
	if o.Meanwhile != nil {
		o.Meanwhile()
	}
	if o.Die {
		panic(fate.Crash{Call: fate.Call{Name: "block " + c.Job}})
	}
	if o.Result == nil && o.Fail == "" {
		o.Result = json.RawMessage(`{"attempt":` + string(rune('0'+c.Attempt%10)) + `}`)
	}
	return o
}

// after does what follows a pack that is final.
func (v *visit) after(ctx context.Context, p *workflow.Pack) error {
	w, now := &v.m.Work, v.s.Now()
	if again := workflow.Retries(p, w.MaxAttempts()); len(again) > 0 {
		next := v.m.Successor(again, p.FinishedAt.Add(w.Retry.Wait(p.Key.Attempt+1)))
		_, err := v.view.Board.Offer(ctx, now, []*workflow.PackMessage{next})
		return err
	}
	look := workflow.Look{Tenant: p.Key.Tenant, Execution: p.Key.Execution, Why: "pack"}
	if w.Lanes == 1 {
		return v.view.Board.Notify(ctx, 0, look)
	}
	// An earlier attempt may have left a job behind that was not tried again:
	// whoever reads the set has to look at the packs.
	bad := p.Bad() || p.Key.Attempt > 1
	set, err := v.view.Packs.AddDone(ctx, p.Key, bad, v.view.Meter.Take())
	if err != nil {
		return err
	}
	if next := v.m.Next(); next != nil {
		if _, err := v.view.Board.Offer(ctx, now, []*workflow.PackMessage{next}); err != nil {
			return err
		}
	} else if cut := v.m.ChainCut; cut > 0 {
		look.Lane = &cut
		if err := v.view.Board.Notify(ctx, 0, look); err != nil {
			return err
		}
		look.Lane = nil
	}
	if lanes := min(workflow.LanesPerShard, w.Lanes-p.Key.Shard()*workflow.LanesPerShard); bad || len(set.Done) == lanes {
		return v.view.Board.Notify(ctx, 0, look)
	}
	return nil
}
