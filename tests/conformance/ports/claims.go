package ports

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Claims checks a worker.Packs.
func Claims(t *testing.T, open Open) {
	// takeover is what the next worker writes over an expired claim.
	takeover := func(p *workflow.Pack) *workflow.Pack {
		next := *p
		next.Token, next.Worker, next.Nonce, next.Lease = p.Token+1, "w2", uuid.NewString(), p.Lease.Add(time.Minute)
		next.Jobs = append([]workflow.JobRecord(nil), p.Jobs...)
		next.Jobs[0].Code = workflow.JobCodeUnknown
		return &next
	}
	refused := func(s *fixture, stands *workflow.Pack) func(ok bool, old *workflow.Pack, err error) {
		return func(ok bool, old *workflow.Pack, err error) {
			s.Helper()
			s.wantApplied(false)(ok, err)
			if diff := cmp.Diff(stands, old); diff != "" {
				s.Error(diff)
			}
		}
	}
	done := func(s *fixture) func(ok bool, old *workflow.Pack, err error) {
		return func(ok bool, _ *workflow.Pack, err error) {
			s.Helper()
			s.wantApplied(true)(ok, err)
		}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"one of many claims wins": func(s *fixture) {
			key := s.newStepRunKey().Pack(0, 1)
			all := make([]*workflow.Pack, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = claimedPack(key)
				ok, old, err := s.Claims.Claim(s.ctx, all[i])
				if !ok && err == nil && (old == nil || old.State != workflow.PackClaimed) {
					s.Errorf("a claim that lost was shown %+v", old)
				}
				return ok, err
			})
			s.wantPack(all[won])
		},
		"a claim whose reply is lost is recognised by its nonce": func(s *fixture) {
			p := claimedPack(s.newStepRunKey().Pack(0, 1))
			s.loseReply()
			done(s)(s.Claims.Claim(s.ctx, p))
			// The same worker's next call is not the one that won.
			again := claimedPack(p.Key)
			refused(s, p)(s.Claims.Claim(s.ctx, again))
			nameless := claimedPack(s.newStepRunKey().Pack(0, 1))
			nameless.Nonce = ""
			s.mustClaim(nameless)
			refused(s, nameless)(s.Claims.Claim(s.ctx, nameless))
		},
		"a takeover needs the token and the lease as read": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			next := takeover(p)
			late, other := *p, *p
			late.Lease, other.Token = p.Lease.Add(time.Millisecond), 2
			refused(s, p)(s.Claims.TakeOver(s.ctx, &late, next))
			refused(s, p)(s.Claims.TakeOver(s.ctx, &other, next))
			done(s)(s.Claims.TakeOver(s.ctx, p, next))
			s.wantPack(next)
			// Whoever held it before has lost it.
			refused(s, next)(s.Claims.Extend(s.ctx, p))
			refused(s, next)(s.Claims.Finish(s.ctx, finishedPack(p)))
			done(s)(s.Claims.Finish(s.ctx, finishedPack(next)))
			s.wantPack(finishedPack(next))
		},
		"one of many takeovers wins": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.oneWinner(func(int) (bool, error) {
				ok, _, err := s.Claims.TakeOver(s.ctx, p, takeover(p))
				return ok, err
			})
		},
		"a takeover whose reply is lost is recognised": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			next := takeover(p)
			s.loseReply()
			done(s)(s.Claims.TakeOver(s.ctx, p, next))
			refused(s, next)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"who is asked to cancel cannot extend or be succeeded, but can end": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			longer.Jobs = finishedPack(p).Jobs
			done(s)(s.Claims.Extend(s.ctx, &longer))
			s.wantPack(&longer)
			s.wantApplied(true)(s.Packs.RequestCancel(s.ctx, p.Key))
			longer.CancelRequested = true
			refused(s, &longer)(s.Claims.Extend(s.ctx, &longer))
			refused(s, &longer)(s.Claims.TakeOver(s.ctx, &longer, takeover(&longer)))
			end := finishedPack(&longer)
			end.State = workflow.PackCancelled
			done(s)(s.Claims.Finish(s.ctx, end))
			s.wantPack(end)
		},
		"a renewed lease cannot be taken over": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			done(s)(s.Claims.Extend(s.ctx, &longer))
			refused(s, &longer)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"a heartbeat that was held up on its way undoes nothing": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			longer.Jobs = finishedPack(p).Jobs
			done(s)(s.Claims.Extend(s.ctx, &longer))
			refused(s, &longer)(s.Claims.Extend(s.ctx, p))
			s.wantPack(&longer)
			done(s)(s.Claims.Extend(s.ctx, &longer)) // itself again, after a lost reply
		},
		"an end whose reply is lost is recognised by its token": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.loseReply()
			done(s)(s.Claims.Finish(s.ctx, finishedPack(p)))
			done(s)(s.Claims.Finish(s.ctx, finishedPack(p)))
			other := finishedPack(p)
			other.Token++
			refused(s, finishedPack(p))(s.Claims.Finish(s.ctx, other))
			refused(s, finishedPack(p))(s.Claims.Extend(s.ctx, p))
		},
		"a write on a pack as it was read is refused once it has been written again": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			first, second := *p, *p
			first.ExpectedLease, first.Lease = p.Lease, p.Lease.Add(time.Minute)
			second.ExpectedLease, second.Lease = p.Lease, p.Lease.Add(2*time.Minute)
			done(s)(s.Claims.Extend(s.ctx, &first))
			stands := first
			stands.ExpectedLease = time.Time{}
			refused(s, &stands)(s.Claims.Extend(s.ctx, &second))
			end := finishedPack(&second)
			refused(s, &stands)(s.Claims.Finish(s.ctx, end))
			end.ExpectedLease = first.Lease
			done(s)(s.Claims.Finish(s.ctx, end))
			done(s)(s.Claims.Finish(s.ctx, end)) // itself again, after a lost reply
			other := *end
			other.Jobs = nil
			ended := *end
			ended.ExpectedLease, ended.Lease = time.Time{}, first.Lease
			refused(s, &ended)(s.Claims.Finish(s.ctx, &other))
		},
		"what was never claimed can be extended or ended by nobody": func(s *fixture) {
			p := claimedPack(s.newStepRunKey().Pack(0, 1))
			refused(s, nil)(s.Claims.Extend(s.ctx, p))
			refused(s, nil)(s.Claims.Finish(s.ctx, finishedPack(p)))
			refused(s, nil)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"a pure pack is finished without a claim, once": func(s *fixture) {
			key := s.newStepRunKey().Pack(0, 1)
			all := make([]*workflow.Pack, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = finishedPack(claimedPack(key))
				ok, _, err := s.Claims.FinishUnclaimed(s.ctx, all[i])
				return ok, err
			})
			s.wantPack(all[won])
			buried := finishedPack(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.wantApplied(true)(s.Packs.PutCancelled(s.ctx, cancelledPack(buried.Key, 0)))
			refused(s, cancelledPack(buried.Key, 0))(s.Claims.FinishUnclaimed(s.ctx, buried))
		},
		"such an end whose reply is lost is recognised": func(s *fixture) {
			f := finishedPack(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.loseReply()
			done(s)(s.Claims.FinishUnclaimed(s.ctx, f))
		},
	})
}
