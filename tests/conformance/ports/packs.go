package ports

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func (s *scene) run() workflow.RunKey {
	return workflow.RunKey{Tenant: s.tenant, Execution: newID(), Visit: 1, RunSeq: 2}
}

// claimed is a pack of three jobs as its first claim writes it.
func claimed(key workflow.PackKey) *workflow.Pack {
	return &workflow.Pack{
		Key: key, State: workflow.PackClaimed, Token: 1, Lease: base.Add(time.Minute), Nonce: uuid.NewString(),
		Worker: "w1", ClaimedAt: base,
		Jobs: []workflow.JobRecord{
			{Index: 30, Code: workflow.CodeStarted, StartedAt: base.Add(-time.Millisecond)},
			{Index: 31, Code: workflow.CodeNone},
			{Index: 32, Code: workflow.CodeNone},
		},
	}
}

// finished is the same pack at its end, with a job of each kind.
func finished(p *workflow.Pack) *workflow.Pack {
	f := *p
	f.State, f.FinishedAt = workflow.PackFinished, base.Add(3*time.Second)
	f.Jobs = []workflow.JobRecord{
		{Index: 30, Code: workflow.CodeOK, StartedAt: base, EndedAt: base.Add(time.Second), Outcome: "OK", Result: json.RawMessage(`{"version":"17.3"}`), Updates: json.RawMessage(`[{"entity":{"type":"device","id":"a"}}]`)},
		{Index: 31, Code: workflow.CodeFail, StartedAt: base, EndedAt: base.Add(time.Second), Outcome: "ERROR", Failure: &workflow.Failure{Code: "HTTP_500", Message: "no", Retryable: true, Details: json.RawMessage(`{"status":500}`)}},
		{Index: 32, Code: workflow.CodeUnknown, StartedAt: base},
		{Index: 33, Code: workflow.CodeOK, Outcome: "OK", Entities: []workflow.EntityKey{{Type: "device", ID: "a"}, {Type: "site", ID: "b"}}},
		{Index: 34, Code: workflow.CodeOK, Outcome: "OK", Stored: &workflow.Stored{Digest: "0123456789abcdef", Chunks: 3, Bytes: 800_000}},
	}
	f.Cost = workflow.Cost{WriteUnits: map[string]float64{"jobs": 2}, Dynamo: 2, Queue: 0.1}
	return &f
}

// cancelled is a pack after it was taken from its holder, or before anybody
// claimed it.
func cancelled(key workflow.PackKey, token int) *workflow.Pack {
	return &workflow.Pack{
		Key: key, State: workflow.PackCancelled, Token: token, FinishedAt: base,
		Jobs: []workflow.JobRecord{{Index: 30, Code: workflow.CodeNotExecuted}},
	}
}

func (s *scene) pack(want *workflow.Pack) {
	s.Helper()
	got := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, want.Key))
	if diff := cmp.Diff(want, got); diff != "" {
		s.Error(diff)
	}
}

func (s *scene) claim(p *workflow.Pack) *workflow.Pack {
	s.Helper()
	ok, old, err := s.Claims.Claim(s.ctx, p)
	s.want(true)(ok, err)
	if old != nil {
		s.Errorf("a claim that was done returned %+v", old)
	}
	return p
}

// Packs checks a port.Packs.
func Packs(t *testing.T, open Open) {
	each(t, open, map[string]func(s *scene){
		"an absent pack is nil, a tombstone is put only there": func(s *scene) {
			a, b := s.run().Pack(7, 1), s.run().Pack(7, 1)
			if p := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, a)); p != nil {
				s.Errorf("found %+v", p)
			}
			s.want(true)(s.Packs.Tombstone(s.ctx, cancelled(a, 0)))
			s.pack(cancelled(a, 0))
			ok, old, err := s.Claims.Claim(s.ctx, claimed(a))
			s.want(false)(ok, err)
			if diff := cmp.Diff(cancelled(a, 0), old); diff != "" {
				s.Error(diff)
			}
			p := s.claim(claimed(b))
			s.want(false)(s.Packs.Tombstone(s.ctx, cancelled(b, 0)))
			s.pack(p)
		},
		"tombstone or claim, one of them": func(s *scene) {
			for lane := range 5 {
				key := s.run().Pack(lane, 1)
				won := s.oneWinner(func(i int) (bool, error) {
					if i%2 == 0 {
						ok, _, err := s.Claims.Claim(s.ctx, claimed(key))
						return ok, err
					}
					return s.Packs.Tombstone(s.ctx, cancelled(key, 1000+i))
				})
				if p := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, key)); (won%2 == 0) != (p.State == workflow.PackClaimed) {
					s.Errorf("racer %d won, the pack is %s", won, p.State)
				}
			}
		},
		"a tombstone whose reply is lost is recognised": func(s *scene) {
			key := s.run().Pack(0, 1)
			s.loseReply()
			s.want(true)(s.Packs.Tombstone(s.ctx, cancelled(key, 0)))
		},
		"cancel is asked of claimed packs only": func(s *scene) {
			run := s.run()
			s.want(false)(s.Packs.AskCancel(s.ctx, run.Pack(0, 1)))
			if p := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, run.Pack(0, 1))); p != nil {
				s.Errorf("asking made %+v", p)
			}
			p := s.claim(claimed(run.Pack(1, 1)))
			s.want(true)(s.Packs.AskCancel(s.ctx, p.Key))
			s.want(true)(s.Packs.AskCancel(s.ctx, p.Key))
			p.Cancel = true
			s.pack(p)
			f := finished(s.claim(claimed(run.Pack(2, 1))))
			ok, _, err := s.Claims.Finish(s.ctx, f)
			s.want(true)(ok, err)
			s.want(false)(s.Packs.AskCancel(s.ctx, f.Key))
			s.pack(f)
		},
		"only the claim as it was read is seized": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(3, 2)))
			taken := cancelled(p.Key, p.Token+1)
			early, other := *p, *p
			early.Lease, other.Token = p.Lease.Add(-time.Second), p.Token+1
			s.want(false)(s.Packs.Seize(s.ctx, &early, taken))
			s.want(false)(s.Packs.Seize(s.ctx, &other, cancelled(p.Key, p.Token+2)))
			s.want(true)(s.Packs.AskCancel(s.ctx, p.Key))
			s.want(true)(s.Packs.Seize(s.ctx, p, taken))
			s.pack(taken)
			ok, old, err := s.Claims.Finish(s.ctx, finished(p))
			s.want(false)(ok, err)
			if diff := cmp.Diff(taken, old); diff != "" {
				s.Error(diff)
			}
			s.want(false)(s.Packs.Seize(s.ctx, &workflow.Pack{Key: s.run().Pack(0, 1), Token: 1, Lease: base}, cancelled(s.run().Pack(0, 1), 2)))
		},
		"a seizure whose reply is lost is recognised": func(s *scene) {
			p := s.claim(claimed(s.run().Pack(3, 2)))
			s.loseReply()
			s.want(true)(s.Packs.Seize(s.ctx, p, cancelled(p.Key, 2)))
		},
		"a shard is read with all attempts and positions, and nothing else": func(s *scene) {
			run := s.run()
			var want []string
			for _, lane := range []int{0, 9, 10, 99, 100, 255, 256, 511} {
				for _, key := range []workflow.PackKey{run.Pack(lane, 1), run.Pack(lane, 2), run.Pack(lane, 99)} {
					key.Pos = lane % 3
					s.claim(claimed(key))
					if key.Shard() == 0 {
						want = append(want, key.String())
					}
				}
			}
			must[workflow.DoneSet](s)(s.Packs.AddDone(s.ctx, run.Pack(0, 1), workflow.LaneEnd{}))
			seq, visit, tenant := run, run, run
			seq.RunSeq, visit.Visit, tenant.Tenant = 22, 2, s.tenant+"2"
			for _, other := range []workflow.RunKey{seq, visit, tenant} {
				s.claim(claimed(other.Pack(0, 1)))
			}
			// Numbers that read alike side by side stay apart: 2, 20 and 22, 0.
			s.claim(claimed(run.Pack(20*workflow.LanesPerShard, 1)))
			if n := len(must[[]*workflow.Pack](s)(s.Packs.Shard(s.ctx, seq, 0))); n != 1 {
				s.Errorf("%d packs in the other run, want 1", n)
			}
			var got []string
			for _, p := range must[[]*workflow.Pack](s)(s.Packs.Shard(s.ctx, run, 0)) {
				got = append(got, p.Key.String())
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				s.Error(diff)
			}
			if n := len(must[[]*workflow.Pack](s)(s.Packs.Shard(s.ctx, run, 1))); n != 6 {
				s.Errorf("%d packs in the second shard, want 6", n)
			}
			if none := must[[]*workflow.Pack](s)(s.Packs.Shard(s.ctx, run, 2)); len(none) != 0 {
				s.Errorf("found %v", none)
			}
		},
		"a shard of several megabytes is read whole": func(s *scene) {
			run := s.run()
			for lane := range 16 {
				f := finished(claimed(run.Pack(lane, 1)))
				f.Jobs[0].Result = json.RawMessage(`"` + noise(250<<10) + `"`)
				ok, _, err := s.Claims.FinishUnclaimed(s.ctx, f)
				s.want(true)(ok, err)
			}
			if n := len(must[[]*workflow.Pack](s)(s.Packs.Shard(s.ctx, run, 0))); n != 16 {
				s.Errorf("%d packs, want 16", n)
			}
			f := finished(claimed(run.Pack(17, 1)))
			f.Jobs[0].Result = json.RawMessage(`"` + noise(800<<10) + `"`)
			_, _, err := s.Claims.FinishUnclaimed(s.ctx, f)
			s.code(err, workflow.CodeTooLarge)
		},
		"what is stored beside a pack is read whole, and is no pack": func(s *scene) {
			run := s.run()
			key, other := run.Pack(7, 2), run.Pack(7, 1)
			for _, data := range []string{"", "{}", noise(workflow.StoredChunk), noise(2*workflow.StoredChunk + 1), strings.Repeat("a", workflow.MaxResult)} {
				st := must[workflow.Stored](s)(s.Claims.Save(s.ctx, key, []byte(data)))
				again := must[workflow.Stored](s)(s.Packs.Save(s.ctx, key, []byte(data)))
				if diff := cmp.Diff(st, again); diff != "" {
					s.Errorf("stored again, it lies elsewhere: %s", diff)
				}
				for _, load := range []func(context.Context, workflow.PackKey, workflow.Stored) ([]byte, error){s.Packs.Load, s.Claims.Load} {
					if got := must[[]byte](s)(load(s.ctx, key, st)); string(got) != data {
						s.Errorf("%d bytes were stored, %d are read", len(data), len(got))
					}
				}
				_, err := s.Packs.Load(s.ctx, other, st)
				s.code(err, workflow.CodeNotFound)
				st.Chunks++
				_, err = s.Packs.Load(s.ctx, key, st)
				s.code(err, workflow.CodeNotFound)
			}
			if packs := must[[]*workflow.Pack](s)(s.Packs.Shard(s.ctx, run, 0)); len(packs) != 0 {
				s.Errorf("found %d packs", len(packs))
			}
			if set := must[workflow.DoneSet](s)(s.Packs.Done(s.ctx, run, 0)); len(set.Done) != 0 {
				s.Errorf("found %+v", set)
			}
		},
		"done sets grow under everybody's hands": func(s *scene) {
			run := s.run()
			if set := must[workflow.DoneSet](s)(s.Packs.Done(s.ctx, run, 1)); len(set.Done) != 0 || len(set.Bad) != 0 || !set.Cost.IsZero() {
				s.Errorf("found %+v", set)
			}
			one := workflow.Cost{WriteUnits: map[string]float64{"jobs": 1.5}, ReadUnits: map[string]float64{"jobs": 0.5}, Dynamo: 2, Queue: 0.25, Functions: 0.5}
			s.race(func(i int) (bool, error) {
				for lane := i; lane < workflow.LanesPerShard; lane += racers {
					add := s.Packs.AddDone
					if lane%2 == 0 {
						add = s.Claims.AddDone
					}
					set, err := add(s.ctx, run.Pack(workflow.LanesPerShard+lane, 1), workflow.LaneEnd{Bad: lane%10 == 0, Updates: lane%3 == 0, Cost: one})
					if err != nil {
						return false, err
					}
					if !set.Done[lane] || set.Bad[lane] != (lane%10 == 0) || set.Updates[lane] != (lane%3 == 0) {
						s.Errorf("lane %d is not in the set it was added to", lane)
					}
				}
				return true, nil
			})
			set := must[workflow.DoneSet](s)(s.Packs.Done(s.ctx, run, 1))
			if len(set.Done) != workflow.LanesPerShard || len(set.Bad) != 26 || len(set.Updates) != 86 {
				s.Errorf("%d done, %d bad, %d with updates", len(set.Done), len(set.Bad), len(set.Updates))
			}
			want := workflow.Cost{WriteUnits: map[string]float64{"jobs": 384}, ReadUnits: map[string]float64{"jobs": 128}, Dynamo: 512, Queue: 64, Functions: 128}
			if diff := cmp.Diff(want, set.Cost); diff != "" {
				s.Error(diff)
			}
			again := must[workflow.DoneSet](s)(s.Packs.AddDone(s.ctx, run.Pack(workflow.LanesPerShard+10, 3), workflow.LaneEnd{}))
			if diff := cmp.Diff(set, again); diff != "" {
				s.Errorf("adding a lane twice changed the set: %s", diff)
			}
			if first := must[workflow.DoneSet](s)(s.Packs.Done(s.ctx, run, 0)); len(first.Done) != 0 {
				s.Errorf("the first shard has %v", first)
			}
		},
	})
}
