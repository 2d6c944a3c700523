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
	// takeover is the claim that the next worker writes over an expired one.
	takeover := func(p *workflow.Pack) *workflow.Pack {
		next := *p
		next.Token, next.Worker, next.Nonce, next.Lease = p.Token+1, "w2", uuid.NewString(), p.Lease.Add(time.Minute)
		next.Jobs = append([]workflow.JobRecord(nil), p.Jobs...)
		next.Jobs[0].Code = workflow.JobCodeUnknown
		return &next
	}
	rejected := func(s *fixture, stored *workflow.Pack) func(ok bool, old *workflow.Pack, err error) {
		return func(ok bool, old *workflow.Pack, err error) {
			s.Helper()
			s.wantApplied(false)(ok, err)
			if diff := cmp.Diff(stored, old); diff != "" {
				s.Error(diff)
			}
		}
	}
	applied := func(s *fixture) func(ok bool, old *workflow.Pack, err error) {
		return func(ok bool, _ *workflow.Pack, err error) {
			s.Helper()
			s.wantApplied(true)(ok, err)
		}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"one of many concurrent claims succeeds": func(s *fixture) {
			key := s.newStepRunKey().Pack(0, 1)
			all := make([]*workflow.Pack, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = claimedPack(key)
				ok, old, err := s.Claims.Claim(s.ctx, all[i])
				if !ok && err == nil && (old == nil || old.State != workflow.PackClaimed) {
					s.Errorf("a failed claim returned %+v", old)
				}
				return ok, err
			})
			s.wantPack(all[won])
		},
		"a claim with a lost reply is recognised by its nonce": func(s *fixture) {
			p := claimedPack(s.newStepRunKey().Pack(0, 1))
			s.loseReply()
			applied(s)(s.Claims.Claim(s.ctx, p))
			// Another call of the same worker has another nonce.
			again := claimedPack(p.Key)
			rejected(s, p)(s.Claims.Claim(s.ctx, again))
			unnamed := claimedPack(s.newStepRunKey().Pack(0, 1))
			unnamed.Nonce = ""
			s.mustClaim(unnamed)
			rejected(s, unnamed)(s.Claims.Claim(s.ctx, unnamed))
		},
		"a takeover needs the token and the lease as they were read": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			next := takeover(p)
			late, other := *p, *p
			late.Lease, other.Token = p.Lease.Add(time.Millisecond), 2
			rejected(s, p)(s.Claims.TakeOver(s.ctx, &late, next))
			rejected(s, p)(s.Claims.TakeOver(s.ctx, &other, next))
			applied(s)(s.Claims.TakeOver(s.ctx, p, next))
			s.wantPack(next)
			// The earlier holder has lost the pack.
			rejected(s, next)(s.Claims.Extend(s.ctx, p))
			rejected(s, next)(s.Claims.Finish(s.ctx, finishedPack(p)))
			applied(s)(s.Claims.Finish(s.ctx, finishedPack(next)))
			s.wantPack(finishedPack(next))
		},
		"one of many concurrent takeovers succeeds": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.oneWinner(func(int) (bool, error) {
				ok, _, err := s.Claims.TakeOver(s.ctx, p, takeover(p))
				return ok, err
			})
		},
		"a takeover with a lost reply is recognised": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			next := takeover(p)
			s.loseReply()
			applied(s)(s.Claims.TakeOver(s.ctx, p, next))
			rejected(s, next)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"after a cancel request the holder can finish, not extend, and nobody can take over": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			longer.Jobs = finishedPack(p).Jobs
			applied(s)(s.Claims.Extend(s.ctx, &longer))
			s.wantPack(&longer)
			s.wantApplied(true)(s.Packs.RequestCancel(s.ctx, p.Key))
			longer.CancelRequested = true
			rejected(s, &longer)(s.Claims.Extend(s.ctx, &longer))
			rejected(s, &longer)(s.Claims.TakeOver(s.ctx, &longer, takeover(&longer)))
			end := finishedPack(&longer)
			end.State = workflow.PackCancelled
			applied(s)(s.Claims.Finish(s.ctx, end))
			s.wantPack(end)
		},
		"a renewed lease cannot be taken over": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			applied(s)(s.Claims.Extend(s.ctx, &longer))
			rejected(s, &longer)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"a late heartbeat undoes nothing": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			longer.Jobs = finishedPack(p).Jobs
			applied(s)(s.Claims.Extend(s.ctx, &longer))
			rejected(s, &longer)(s.Claims.Extend(s.ctx, p))
			s.wantPack(&longer)
			applied(s)(s.Claims.Extend(s.ctx, &longer)) // the same write, after a lost reply
		},
		"a finish with a lost reply is recognised by its token": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.loseReply()
			applied(s)(s.Claims.Finish(s.ctx, finishedPack(p)))
			applied(s)(s.Claims.Finish(s.ctx, finishedPack(p)))
			other := finishedPack(p)
			other.Token++
			rejected(s, finishedPack(p))(s.Claims.Finish(s.ctx, other))
			rejected(s, finishedPack(p))(s.Claims.Extend(s.ctx, p))
		},
		"a write with an expected lease is rejected after another write": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(0, 1)))
			first, second := *p, *p
			first.ExpectedLease, first.Lease = p.Lease, p.Lease.Add(time.Minute)
			second.ExpectedLease, second.Lease = p.Lease, p.Lease.Add(2*time.Minute)
			applied(s)(s.Claims.Extend(s.ctx, &first))
			stored := first
			stored.ExpectedLease = time.Time{}
			rejected(s, &stored)(s.Claims.Extend(s.ctx, &second))
			end := finishedPack(&second)
			rejected(s, &stored)(s.Claims.Finish(s.ctx, end))
			end.ExpectedLease = first.Lease
			applied(s)(s.Claims.Finish(s.ctx, end))
			applied(s)(s.Claims.Finish(s.ctx, end)) // the same write, after a lost reply
			other := *end
			other.Jobs = nil
			ended := *end
			ended.ExpectedLease, ended.Lease = time.Time{}, first.Lease
			rejected(s, &ended)(s.Claims.Finish(s.ctx, &other))
		},
		"a pack that was never claimed cannot be extended, finished or taken over": func(s *fixture) {
			p := claimedPack(s.newStepRunKey().Pack(0, 1))
			rejected(s, nil)(s.Claims.Extend(s.ctx, p))
			rejected(s, nil)(s.Claims.Finish(s.ctx, finishedPack(p)))
			rejected(s, nil)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
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
			cancelled := finishedPack(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.wantApplied(true)(s.Packs.PutCancelled(s.ctx, cancelledPack(cancelled.Key, 0)))
			rejected(s, cancelledPack(cancelled.Key, 0))(s.Claims.FinishUnclaimed(s.ctx, cancelled))
		},
		"an unclaimed finish with a lost reply is recognised": func(s *fixture) {
			f := finishedPack(claimedPack(s.newStepRunKey().Pack(0, 1)))
			s.loseReply()
			applied(s)(s.Claims.FinishUnclaimed(s.ctx, f))
		},
	})
}
