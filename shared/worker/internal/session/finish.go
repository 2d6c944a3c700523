package session

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// finishTime bounds the write of what came of the jobs. It is made even where
// the process has been told to stop, for otherwise all of it would be lost.
const finishTime = 10 * time.Second

// finish writes what came of the jobs, on the condition that the pack is still
// this session's, and returns the final pack. own says that it is this session's
// end; pure jobs may have been ended by somebody else.
//
// The lease may be over by now: as long as nobody has taken the pack over, what
// came of its jobs is still true.
func (s *session) finish(ctx context.Context) (p *workflow.Pack, own bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	p, put := s.end(), s.ports.Packs.Finish
	if p == nil {
		s.save(ctx)
		return nil, false, errStopped
	}
	if s.free {
		put = s.ports.Packs.FinishUnclaimed
	}
	ok, old, err := s.write(ctx, p, put)
	if s.free && err == nil && !ok && old != nil && !old.Final() {
		now := s.w.Now()
		switch workflow.JudgeClaim(old, now, s.w.Skew, s.w.MaxClaims) {
		case workflow.ClaimLive:
			return nil, false, &engaged{later(old.Lease.Add(s.w.Skew + time.Millisecond).Sub(now))}
		case workflow.ClaimEngines:
			return nil, false, &engaged{done} // the engine's alarm closes it
		}
		p = inPlaceOf(old, p)
		ok, old, err = s.ports.Packs.TakeOver(ctx, old, p)
	}
	switch {
	case err != nil:
		return nil, false, err
	case ok:
		return p, true, nil
	case s.free && old.Final():
		return old, false, nil
	case overtaken(p, old):
		return nil, false, &overtake{old}
	}
	return nil, false, errLost
}

// engaged is the error of an end of pure jobs whose pack is not to be taken from
// whoever has claimed it; so says what becomes of the message.
type engaged struct{ so Disposition }

func (e *engaged) Error() string { return "somebody else has the pack" }

// inPlaceOf is the end of pure jobs that nobody here has claimed, where somebody
// else has, whose time is over: packs are claimed whenever they are lent. What had
// ended under that claim stays.
func inPlaceOf(held, end *workflow.Pack) *workflow.Pack {
	p := *end
	p.Token = held.Token + 1
	p.Jobs = append([]workflow.JobRecord(nil), end.Jobs...)
	for i := range p.Jobs {
		for _, rec := range held.Jobs {
			if rec.Index == p.Jobs[i].Index && rec.Code != workflow.CodeNone && rec.Code != workflow.CodeStarted {
				p.Jobs[i] = rec
			}
		}
	}
	return &p
}

// save writes down what has ended where not everything has, so that whoever
// takes the pack over does not do it again, or call it unknown.
func (s *session) save(ctx context.Context) {
	s.mu.Lock()
	unsaved := ended(s.pack.Jobs) > s.saved
	s.mu.Unlock()
	if s.free || !unsaved {
		return
	}
	if err := s.renew(ctx, none); err != nil {
		s.w.warn(ctx, "what has ended is not written down", s.m, err)
	}
}

// end is the pack as it is when all jobs have ended, or when it is released
// because the engine has asked for it. It is nil if jobs are left for any other
// reason: then nothing is final.
func (s *session) end() *workflow.Pack {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.snapshot()
	p.State, p.FinishedAt = workflow.PackFinished, s.w.Now()
	for i := range p.Jobs {
		if code := p.Jobs[i].Code; code != workflow.CodeNone && code != workflow.CodeStarted {
			continue
		}
		if !s.cancelled {
			return nil
		}
		p.State = workflow.PackCancelled
		s.release(&p.Jobs[i])
	}
	return p
}

// release ends a job that a cancelled pack leaves. It counts as not executed only
// where that is certain: it was never written down as started, or it was by this
// very claim, the first, and this worker did not begin it.
func (s *session) release(rec *workflow.JobRecord) {
	switch {
	case rec.Code == workflow.CodeNone:
		rec.Code = workflow.CodeNotExecuted
	case s.m.Work.Repeatable() && s.firstOwner && !s.started[rec.Index]:
		rec.Code, rec.StartedAt = workflow.CodeNotExecuted, time.Time{}
	default:
		rec.Code, rec.EndedAt = workflow.CodeUnknown, s.w.Now()
	}
}
