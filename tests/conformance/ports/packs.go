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

func (s *fixture) newStepRunKey() workflow.StepRunKey {
	return workflow.StepRunKey{Tenant: s.tenant, Execution: newID(), Ordinal: 1, Seq: 2}
}

// claimedPack is a pack of three jobs as its first claim writes it.
func claimedPack(key workflow.PackKey) *workflow.Pack {
	return &workflow.Pack{
		Key: key, State: workflow.PackClaimed, Token: 1, Lease: baseTime.Add(time.Minute), Nonce: uuid.NewString(),
		Worker: "w1", ClaimedAt: baseTime,
		Jobs: []workflow.JobRecord{
			{Index: 30, Code: workflow.JobCodeStarted, StartedAt: baseTime.Add(-time.Millisecond)},
			{Index: 31, Code: workflow.JobCodeNone},
			{Index: 32, Code: workflow.JobCodeNone},
		},
	}
}

// finishedPack is the pack when it has finished, with a job of each kind.
func finishedPack(p *workflow.Pack) *workflow.Pack {
	f := *p
	f.State, f.FinishedAt = workflow.PackFinished, baseTime.Add(3*time.Second)
	f.Jobs = []workflow.JobRecord{
		{Index: 30, Code: workflow.JobCodeOK, StartedAt: baseTime, EndedAt: baseTime.Add(time.Second), Outcome: "OK", Result: json.RawMessage(`{"version":"17.3"}`), Updates: json.RawMessage(`[{"entity":{"type":"device","id":"a"}}]`)},
		{Index: 31, Code: workflow.JobCodeFail, StartedAt: baseTime, EndedAt: baseTime.Add(time.Second), Outcome: "ERROR", Failure: &workflow.Failure{Code: "HTTP_500", Message: "no", Retryable: true, Details: json.RawMessage(`{"status":500}`)}},
		{Index: 32, Code: workflow.JobCodeUnknown, StartedAt: baseTime},
		{Index: 33, Code: workflow.JobCodeOK, Outcome: "OK", Entities: []workflow.EntityKey{{Type: "device", ID: "a"}, {Type: "site", ID: "b"}}},
		{Index: 34, Code: workflow.JobCodeOK, Outcome: "OK", ResultRef: &workflow.PayloadRef{Digest: "0123456789abcdef", Chunks: 3, Bytes: 800_000}},
	}
	f.Cost = workflow.Cost{WriteUnits: map[string]float64{"jobs": 2}, DynamoRequests: 2, QueueRequests: 0.1}
	return &f
}

// cancelledPack is a pack that was cancelled, before or after its first claim.
func cancelledPack(key workflow.PackKey, token int) *workflow.Pack {
	return &workflow.Pack{
		Key: key, State: workflow.PackCancelled, Token: token, FinishedAt: baseTime,
		Jobs: []workflow.JobRecord{{Index: 30, Code: workflow.JobCodeNotExecuted}},
	}
}

func (s *fixture) wantPack(want *workflow.Pack) {
	s.Helper()
	got := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, want.Key))
	if diff := cmp.Diff(want, got); diff != "" {
		s.Error(diff)
	}
}

func (s *fixture) mustClaim(p *workflow.Pack) *workflow.Pack {
	s.Helper()
	ok, old, err := s.Claims.Claim(s.ctx, p)
	s.wantApplied(true)(ok, err)
	if old != nil {
		s.Errorf("a successful claim returned %+v", old)
	}
	return p
}

// Packs checks a port.Packs.
func Packs(t *testing.T, open Open) {
	runParallel(t, open, map[string]func(s *fixture){
		"a missing pack is nil, and only it can be put as cancelled": func(s *fixture) {
			a, b := s.newStepRunKey().Pack(7, 1), s.newStepRunKey().Pack(7, 1)
			if p := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, a)); p != nil {
				s.Errorf("found %+v", p)
			}
			s.wantApplied(true)(s.Packs.PutCancelled(s.ctx, cancelledPack(a, 0)))
			s.wantPack(cancelledPack(a, 0))
			ok, old, err := s.Claims.Claim(s.ctx, claimedPack(a))
			s.wantApplied(false)(ok, err)
			if diff := cmp.Diff(cancelledPack(a, 0), old); diff != "" {
				s.Error(diff)
			}
			p := s.mustClaim(claimedPack(b))
			s.wantApplied(false)(s.Packs.PutCancelled(s.ctx, cancelledPack(b, 0)))
			s.wantPack(p)
		},
		"one of a claim and a cancelled marker succeeds": func(s *fixture) {
			for lane := range 5 {
				key := s.newStepRunKey().Pack(lane, 1)
				won := s.oneWinner(func(i int) (bool, error) {
					if i%2 == 0 {
						ok, _, err := s.Claims.Claim(s.ctx, claimedPack(key))
						return ok, err
					}
					return s.Packs.PutCancelled(s.ctx, cancelledPack(key, 1000+i))
				})
				if p := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, key)); (won%2 == 0) != (p.State == workflow.PackClaimed) {
					s.Errorf("racer %d succeeded, the pack is %s", won, p.State)
				}
			}
		},
		"a cancelled marker with a lost reply is recognised": func(s *fixture) {
			key := s.newStepRunKey().Pack(0, 1)
			s.loseReply()
			s.wantApplied(true)(s.Packs.PutCancelled(s.ctx, cancelledPack(key, 0)))
		},
		"only a claimed pack takes a cancel request": func(s *fixture) {
			stepRun := s.newStepRunKey()
			s.wantApplied(false)(s.Packs.RequestCancel(s.ctx, stepRun.Pack(0, 1)))
			if p := must[*workflow.Pack](s)(s.Packs.Pack(s.ctx, stepRun.Pack(0, 1))); p != nil {
				s.Errorf("the request created %+v", p)
			}
			p := s.mustClaim(claimedPack(stepRun.Pack(1, 1)))
			s.wantApplied(true)(s.Packs.RequestCancel(s.ctx, p.Key))
			s.wantApplied(true)(s.Packs.RequestCancel(s.ctx, p.Key))
			p.CancelRequested = true
			s.wantPack(p)
			f := finishedPack(s.mustClaim(claimedPack(stepRun.Pack(2, 1))))
			ok, _, err := s.Claims.Finish(s.ctx, f)
			s.wantApplied(true)(ok, err)
			s.wantApplied(false)(s.Packs.RequestCancel(s.ctx, f.Key))
			s.wantPack(f)
		},
		"a forced cancel needs the claim as it was read": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(3, 2)))
			cancelled := cancelledPack(p.Key, p.Token+1)
			early, other := *p, *p
			early.Lease, other.Token = p.Lease.Add(-time.Second), p.Token+1
			s.wantApplied(false)(s.Packs.ForceCancel(s.ctx, &early, cancelled))
			s.wantApplied(false)(s.Packs.ForceCancel(s.ctx, &other, cancelledPack(p.Key, p.Token+2)))
			s.wantApplied(true)(s.Packs.RequestCancel(s.ctx, p.Key))
			s.wantApplied(true)(s.Packs.ForceCancel(s.ctx, p, cancelled))
			s.wantPack(cancelled)
			ok, old, err := s.Claims.Finish(s.ctx, finishedPack(p))
			s.wantApplied(false)(ok, err)
			if diff := cmp.Diff(cancelled, old); diff != "" {
				s.Error(diff)
			}
			s.wantApplied(false)(s.Packs.ForceCancel(s.ctx, &workflow.Pack{Key: s.newStepRunKey().Pack(0, 1), Token: 1, Lease: baseTime}, cancelledPack(s.newStepRunKey().Pack(0, 1), 2)))
		},
		"a forced cancel with a lost reply is recognised": func(s *fixture) {
			p := s.mustClaim(claimedPack(s.newStepRunKey().Pack(3, 2)))
			s.loseReply()
			s.wantApplied(true)(s.Packs.ForceCancel(s.ctx, p, cancelledPack(p.Key, 2)))
		},
		"a shard has all attempts and pipeline positions, and nothing else": func(s *fixture) {
			stepRun := s.newStepRunKey()
			var want []string
			for _, lane := range []int{0, 9, 10, 99, 100, 255, 256, 511} {
				for _, key := range []workflow.PackKey{stepRun.Pack(lane, 1), stepRun.Pack(lane, 2), stepRun.Pack(lane, 99)} {
					key.PipelinePos = lane % 3
					s.mustClaim(claimedPack(key))
					if key.Shard() == 0 {
						want = append(want, key.String())
					}
				}
			}
			must[workflow.DoneSet](s)(s.Packs.AddDone(s.ctx, stepRun.Pack(0, 1), workflow.LaneResult{}))
			otherSeq, otherOrdinal, otherTenant := stepRun, stepRun, stepRun
			otherSeq.Seq, otherOrdinal.Ordinal, otherTenant.Tenant = 22, 2, s.tenant+"2"
			for _, other := range []workflow.StepRunKey{otherSeq, otherOrdinal, otherTenant} {
				s.mustClaim(claimedPack(other.Pack(0, 1)))
			}
			// Keys whose digits read alike stay apart: step run 2, shard 20 and 22, 0.
			s.mustClaim(claimedPack(stepRun.Pack(20*workflow.LanesPerShard, 1)))
			if n := len(must[[]*workflow.Pack](s)(s.Packs.ShardPacks(s.ctx, otherSeq, 0))); n != 1 {
				s.Errorf("%d packs in the other step run, want 1", n)
			}
			var got []string
			for _, p := range must[[]*workflow.Pack](s)(s.Packs.ShardPacks(s.ctx, stepRun, 0)) {
				got = append(got, p.Key.String())
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				s.Error(diff)
			}
			strong, weak := must[[]*workflow.Pack](s)(s.Packs.ShardPacks(s.ctx, stepRun, 1)), must[[]*workflow.Pack](s)(s.Packs.ShardPacksWeakly(s.ctx, stepRun, 1))
			if diff := cmp.Diff(strong, weak); diff != "" {
				s.Errorf("read weakly: %s", diff)
			}
			if n := len(strong); n != 6 {
				s.Errorf("%d packs in the second shard, want 6", n)
			}
			if none := must[[]*workflow.Pack](s)(s.Packs.ShardPacks(s.ctx, stepRun, 2)); len(none) != 0 {
				s.Errorf("found %v", none)
			}
			for lanes, want := range map[[2]int]int{{0, 0}: 3, {9, 10}: 6, {1, 8}: 0, {10, 255}: 12, {0, 255}: 18, {256, 511}: 6, {511, 511}: 3} {
				if n := len(must[[]*workflow.Pack](s)(s.Packs.LanePacks(s.ctx, stepRun, lanes[0], lanes[1]))); n != want {
					s.Errorf("%d packs of the lanes %v, want %d", n, lanes, want)
				}
			}
			for _, lane := range []int{99_999, 100_000} { // one digit more
				s.mustClaim(claimedPack(stepRun.Pack(lane, 1)))
			}
			for lanes, want := range map[[2]int]int{{99_990, 99_999}: 1, {99_999, 100_000}: 2, {100_000, 100_003}: 1} {
				if n := len(must[[]*workflow.Pack](s)(s.Packs.LanePacks(s.ctx, stepRun, lanes[0], lanes[1]))); n != want {
					s.Errorf("%d packs of the lanes %v, want %d", n, lanes, want)
				}
			}
		},
		"a shard of several megabytes is read completely": func(s *fixture) {
			stepRun := s.newStepRunKey()
			for lane := range 16 {
				f := finishedPack(claimedPack(stepRun.Pack(lane, 1)))
				f.Jobs[0].Result = json.RawMessage(`"` + incompressible(250<<10) + `"`)
				ok, _, err := s.Claims.FinishUnclaimed(s.ctx, f)
				s.wantApplied(true)(ok, err)
			}
			if n := len(must[[]*workflow.Pack](s)(s.Packs.ShardPacks(s.ctx, stepRun, 0))); n != 16 {
				s.Errorf("%d packs, want 16", n)
			}
			f := finishedPack(claimedPack(stepRun.Pack(17, 1)))
			f.Jobs[0].Result = json.RawMessage(`"` + incompressible(800<<10) + `"`)
			_, _, err := s.Claims.FinishUnclaimed(s.ctx, f)
			s.wantCode(err, workflow.CodeTooLarge)
		},
		"a payload is read completely, and is not a pack": func(s *fixture) {
			stepRun := s.newStepRunKey()
			key, other := stepRun.Pack(7, 2), stepRun.Pack(7, 1)
			for _, data := range []string{"", "{}", incompressible(workflow.PayloadChunkBytes), incompressible(2*workflow.PayloadChunkBytes + 1), strings.Repeat("a", workflow.MaxResultBytes)} {
				ref := must[workflow.PayloadRef](s)(s.Claims.SavePayload(s.ctx, key, []byte(data)))
				again := must[workflow.PayloadRef](s)(s.Packs.SavePayload(s.ctx, key, []byte(data)))
				if diff := cmp.Diff(ref, again); diff != "" {
					s.Errorf("stored again under another reference: %s", diff)
				}
				for _, load := range []func(context.Context, workflow.PackKey, workflow.PayloadRef) ([]byte, error){s.Packs.LoadPayload, s.Claims.LoadPayload} {
					if got := must[[]byte](s)(load(s.ctx, key, ref)); string(got) != data {
						s.Errorf("%d bytes were stored, %d were read", len(data), len(got))
					}
				}
				_, err := s.Packs.LoadPayload(s.ctx, other, ref)
				s.wantCode(err, workflow.CodeNotFound)
				ref.Chunks++
				_, err = s.Packs.LoadPayload(s.ctx, key, ref)
				s.wantCode(err, workflow.CodeNotFound)
			}
			if packs := must[[]*workflow.Pack](s)(s.Packs.ShardPacks(s.ctx, stepRun, 0)); len(packs) != 0 {
				s.Errorf("found %d packs", len(packs))
			}
			if set := must[workflow.DoneSet](s)(s.Packs.DoneSet(s.ctx, stepRun, 0)); len(set.Done) != 0 {
				s.Errorf("found %+v", set)
			}
		},
		"a done set says which lane is new, and how many jobs have failed": func(s *fixture) {
			stepRun := s.newStepRunKey()
			end := workflow.LaneResult{Unsuccessful: true, Failures: workflow.JobFailures{Failed: 100, Unknown: 99}}
			for _, add := range []struct {
				lane  int
				end   workflow.LaneResult
				added bool
			}{{255, end, true}, {255, end, false}, {7, workflow.LaneResult{}, true}, {8, workflow.LaneResult{Unsuccessful: true}, true}, {7, workflow.LaneResult{}, false}} {
				if set := must[workflow.DoneSet](s)(s.Claims.AddDone(s.ctx, stepRun.Pack(add.lane, 1), add.end)); set.Added != add.added || !set.Done[add.lane] {
					s.Errorf("lane %d: %+v", add.lane, set)
				}
			}
			set := must[workflow.DoneSet](s)(s.Packs.DoneSet(s.ctx, stepRun, 0))
			want := workflow.NewDoneSet()
			want.Done = map[int]bool{7: true, 8: true, 255: true}
			want.Unsuccessful = map[int]bool{8: true, 255: true}
			want.Failures[255] = end.Failures
			if diff := cmp.Diff(want, set); diff != "" {
				s.Error(diff)
			}
		},
		"the last mark of a pool is kept": func(s *fixture) {
			pool := "pool-" + s.newStepRunKey().Execution
			if got := must[workflow.PoolMark](s)(s.Packs.PoolMark(s.ctx, pool)); got != (workflow.PoolMark{}) {
				s.Errorf("found %+v", got)
			}
			at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			for _, m := range []workflow.PoolMark{{At: at, SentAt: at.Add(-time.Hour), Execution: "x", StepRun: 2}, {At: at.Add(time.Minute), SentAt: at.Add(-2 * time.Hour), Execution: "y"}} {
				if err := s.Claims.MarkPool(s.ctx, pool, m); err != nil {
					s.Fatal(err)
				}
				if got := must[workflow.PoolMark](s)(s.Packs.PoolMark(s.ctx, pool)); !got.At.Equal(m.At) || !got.SentAt.Equal(m.SentAt) || got.Execution != m.Execution || got.StepRun != m.StepRun {
					s.Errorf("found %+v, want %+v", got, m)
				}
			}
		},
		"lanes that are over are added to a done set together": func(s *fixture) {
			stepRun := s.newStepRunKey()
			must[workflow.DoneSet](s)(s.Packs.AddDone(s.ctx, stepRun.Pack(258, 1), workflow.LaneResult{Unsuccessful: true}))
			want := workflow.NewDoneSet()
			want.Done, want.Unsuccessful = map[int]bool{2: true}, map[int]bool{2: true}
			for _, lanes := range [][]int{{258, 300}, {511}, {300, 256}, {300, 258}} {
				want.Added = false
				for _, lane := range lanes {
					want.Added = want.Added || !want.Done[lane-256]
					want.Done[lane-256] = true
				}
				if diff := cmp.Diff(want, must[workflow.DoneSet](s)(s.Packs.AddDoneLanes(s.ctx, stepRun, 1, lanes))); diff != "" {
					s.Error(lanes, diff)
				}
			}
			set := must[workflow.DoneSet](s)(s.Packs.DoneSet(s.ctx, stepRun, 1))
			want.Added = false
			if diff := cmp.Diff(want, set); diff != "" {
				s.Error(diff)
			}
		},
		"concurrent additions to a done set are all kept": func(s *fixture) {
			stepRun := s.newStepRunKey()
			if set := must[workflow.DoneSet](s)(s.Packs.DoneSet(s.ctx, stepRun, 1)); len(set.Done) != 0 || len(set.Unsuccessful) != 0 || !set.Cost.IsZero() {
				s.Errorf("found %+v", set)
			}
			one := workflow.Cost{WriteUnits: map[string]float64{"jobs": 1.5}, ReadUnits: map[string]float64{"jobs": 0.5}, DynamoRequests: 2, QueueRequests: 0.25, Invocations: 0.5}
			s.race(func(i int) (bool, error) {
				for lane := i; lane < workflow.LanesPerShard; lane += racers {
					add := s.Packs.AddDone
					if lane%2 == 0 {
						add = s.Claims.AddDone
					}
					set, err := add(s.ctx, stepRun.Pack(workflow.LanesPerShard+lane, 1), workflow.LaneResult{Unsuccessful: lane%10 == 0, HasUpdates: lane%3 == 0, Cost: one})
					if err != nil {
						return false, err
					}
					if !set.Done[lane] || set.Unsuccessful[lane] != (lane%10 == 0) || set.WithUpdates[lane] != (lane%3 == 0) {
						s.Errorf("lane %d is not in the set it was added to", lane)
					}
				}
				return true, nil
			})
			set := must[workflow.DoneSet](s)(s.Packs.DoneSet(s.ctx, stepRun, 1))
			if len(set.Done) != workflow.LanesPerShard || len(set.Unsuccessful) != 26 || len(set.WithUpdates) != 86 {
				s.Errorf("%d done, %d unsuccessful, %d with updates", len(set.Done), len(set.Unsuccessful), len(set.WithUpdates))
			}
			want := workflow.Cost{WriteUnits: map[string]float64{"jobs": 384}, ReadUnits: map[string]float64{"jobs": 128}, DynamoRequests: 512, QueueRequests: 64, Invocations: 128}
			if diff := cmp.Diff(want, set.Cost); diff != "" {
				s.Error(diff)
			}
			again := must[workflow.DoneSet](s)(s.Packs.AddDone(s.ctx, stepRun.Pack(workflow.LanesPerShard+10, 3), workflow.LaneResult{}))
			if diff := cmp.Diff(set, again); diff != "" {
				s.Errorf("adding a lane twice changed the set: %s", diff)
			}
			if first := must[workflow.DoneSet](s)(s.Packs.DoneSet(s.ctx, stepRun, 0)); len(first.Done) != 0 {
				s.Errorf("the first shard has %v", first)
			}
		},
	})
}
