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
		next.Jobs[0].Code = workflow.CodeUnknown
		return &next
	}
	refused := func(s *scene, stands *workflow.Pack) func(ok bool, old *workflow.Pack, err error) {
		return func(ok bool, old *workflow.Pack, err error) {
			s.Helper()
			s.want(false)(ok, err)
			if diff := cmp.Diff(stands, old); diff != "" {
				s.Error(diff)
			}
		}
	}
	done := func(s *scene) func(ok bool, old *workflow.Pack, err error) {
		return func(ok bool, _ *workflow.Pack, err error) {
			s.Helper()
			s.want(true)(ok, err)
		}
	}
	each(t, open, map[string]func(s *scene){
		"one of many claims wins": func(s *scene) {
			key := s.run().Pack(0, 1)
			all := make([]*workflow.Pack, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = claimed(key)
				ok, old, err := s.Claims.Claim(s.ctx, all[i])
				if !ok && err == nil && (old == nil || old.State != workflow.PackClaimed) {
					s.Errorf("a claim that lost was shown %+v", old)
				}
				return ok, err
			})
			s.pack(all[won])
		},
		"a claim whose reply is lost is recognised by its nonce": func(s *scene) {
			p := claimed(s.run().Pack(0, 1))
			s.loseReply()
			done(s)(s.Claims.Claim(s.ctx, p))
			// The same worker's next call is not the one that won.
			again := claimed(p.Key)
			refused(s, p)(s.Claims.Claim(s.ctx, again))
			nameless := claimed(s.run().Pack(0, 1))
			nameless.Nonce = ""
			s.claim(nameless)
			refused(s, nameless)(s.Claims.Claim(s.ctx, nameless))
		},
		"a takeover needs the token and the lease as read": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			next := takeover(p)
			late, other := *p, *p
			late.Lease, other.Token = p.Lease.Add(time.Millisecond), 2
			refused(s, p)(s.Claims.TakeOver(s.ctx, &late, next))
			refused(s, p)(s.Claims.TakeOver(s.ctx, &other, next))
			done(s)(s.Claims.TakeOver(s.ctx, p, next))
			s.pack(next)
			// Whoever held it before has lost it.
			refused(s, next)(s.Claims.Extend(s.ctx, p))
			refused(s, next)(s.Claims.Finish(s.ctx, finished(p)))
			done(s)(s.Claims.Finish(s.ctx, finished(next)))
			s.pack(finished(next))
		},
		"one of many takeovers wins": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			s.oneWinner(func(int) (bool, error) {
				ok, _, err := s.Claims.TakeOver(s.ctx, p, takeover(p))
				return ok, err
			})
		},
		"a takeover whose reply is lost is recognised": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			next := takeover(p)
			s.loseReply()
			done(s)(s.Claims.TakeOver(s.ctx, p, next))
			refused(s, next)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"who is asked to cancel cannot extend or be succeeded, but can end": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			longer.Jobs = finished(p).Jobs
			done(s)(s.Claims.Extend(s.ctx, &longer))
			s.pack(&longer)
			s.want(true)(s.Packs.AskCancel(s.ctx, p.Key))
			longer.Cancel = true
			refused(s, &longer)(s.Claims.Extend(s.ctx, &longer))
			refused(s, &longer)(s.Claims.TakeOver(s.ctx, &longer, takeover(&longer)))
			end := finished(&longer)
			end.State = workflow.PackCancelled
			done(s)(s.Claims.Finish(s.ctx, end))
			s.pack(end)
		},
		"a renewed lease cannot be taken over": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			done(s)(s.Claims.Extend(s.ctx, &longer))
			refused(s, &longer)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"a heartbeat that was held up on its way undoes nothing": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			longer := *p
			longer.Lease = p.Lease.Add(time.Minute)
			longer.Jobs = finished(p).Jobs
			done(s)(s.Claims.Extend(s.ctx, &longer))
			refused(s, &longer)(s.Claims.Extend(s.ctx, p))
			s.pack(&longer)
			done(s)(s.Claims.Extend(s.ctx, &longer)) // itself again, after a lost reply
		},
		"an end whose reply is lost is recognised by its token": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			s.loseReply()
			done(s)(s.Claims.Finish(s.ctx, finished(p)))
			done(s)(s.Claims.Finish(s.ctx, finished(p)))
			other := finished(p)
			other.Token++
			refused(s, finished(p))(s.Claims.Finish(s.ctx, other))
			refused(s, finished(p))(s.Claims.Extend(s.ctx, p))
		},
		"a write on a pack as it was read is refused once it has been written again": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(0, 1)))
			first, second := *p, *p
			first.Seen, first.Lease = p.Lease, p.Lease.Add(time.Minute)
			second.Seen, second.Lease = p.Lease, p.Lease.Add(2*time.Minute)
			done(s)(s.Claims.Extend(s.ctx, &first))
			stands := first
			stands.Seen = time.Time{}
			refused(s, &stands)(s.Claims.Extend(s.ctx, &second))
			end := finished(&second)
			refused(s, &stands)(s.Claims.Finish(s.ctx, end))
			end.Seen = first.Lease
			done(s)(s.Claims.Finish(s.ctx, end))
			done(s)(s.Claims.Finish(s.ctx, end)) // itself again, after a lost reply
			other := *end
			other.Jobs = nil
			ended := *end
			ended.Seen, ended.Lease = time.Time{}, first.Lease
			refused(s, &ended)(s.Claims.Finish(s.ctx, &other))
		},
		"what was never claimed can be extended or ended by nobody": func(s *scene) {
			p := claimed(s.run().Pack(0, 1))
			refused(s, nil)(s.Claims.Extend(s.ctx, p))
			refused(s, nil)(s.Claims.Finish(s.ctx, finished(p)))
			refused(s, nil)(s.Claims.TakeOver(s.ctx, p, takeover(p)))
		},
		"a pure pack is finished without a claim, once": func(s *scene) {
			key := s.run().Pack(0, 1)
			all := make([]*workflow.Pack, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				all[i] = finished(claimed(key))
				ok, _, err := s.Claims.FinishUnclaimed(s.ctx, all[i])
				return ok, err
			})
			s.pack(all[won])
			buried := finished(claimed(s.run().Pack(0, 1)))
			s.want(true)(s.Packs.Tombstone(s.ctx, cancelled(buried.Key, 0)))
			refused(s, cancelled(buried.Key, 0))(s.Claims.FinishUnclaimed(s.ctx, buried))
		},
		"such an end whose reply is lost is recognised": func(s *scene) {
			f := finished(claimed(s.run().Pack(0, 1)))
			s.loseReply()
			done(s)(s.Claims.FinishUnclaimed(s.ctx, f))
		},
	})
}
