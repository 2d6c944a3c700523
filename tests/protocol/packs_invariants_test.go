package protocol_test

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func (y *packFixture) violate(format string, args ...any) {
	if y.violation == "" {
		y.violation = fmt.Sprintf(format, args...)
	}
}

// blockCalled is told of every call of a block, as it begins.
func (y *packFixture) blockCalled(job *worker.Job) {
	if y.stepRun.Work.Pure {
		y.calledFences[job.ID] = append(y.calledFences[job.ID], job.Fence)
		return // what changes nothing may be called at any time
	}
	i, key := jobIndex(job), y.key.Pack(jobIndex(job)/y.stepRun.Step.PackSize, job.Attempt)
	switch before := y.calledFences[job.ID]; {
	case len(before) > 0 && !y.stepRun.Work.Repeatable():
		y.violate("job %s is called twice, with fence %s after %s", job.ID, job.Fence, before)
	case slices.Contains(before, job.Fence):
		y.violate("job %s is called twice under one claim, with fence %s", job.ID, job.Fence)
	case y.phase == decided:
		y.violate("job %s begins, and what comes of its step is decided", job.ID)
	case job.Fence < y.highestFence[i]:
		y.violate("job %s begins under its claim, and its device refuses %s after %s", job.ID, job.Fence, y.highestFence[i])
	}
	y.calledFences[job.ID] = append(y.calledFences[job.ID], job.Fence)
	y.highestFence[i] = max(y.highestFence[i], job.Fence)
	p := y.loadPack(key)
	if p == nil || p.State != workflow.PackClaimed || jobCode(p, i) != workflow.JobCodeStarted || job.Fence != workflow.Fence(job.Token, key.StepRunSeq, key.Attempt, p.Token) {
		y.violate("job %s begins with fence %s, and its pack is %+v", job.ID, job.Fence, p)
	}
	if job.Attempt > 1 {
		key.Attempt--
		if p := y.loadPack(key); p == nil || p.State != workflow.PackFinished || jobCode(p, i) != workflow.JobCodeFail {
			y.violate("job %s begins, and the attempt before it is %+v", job.ID, p)
		}
	}
}

func jobCode(p *workflow.Pack, index int) workflow.JobCode {
	for _, j := range p.Jobs {
		if j.Index == index {
			return j.Code
		}
	}
	return ""
}

// packEnded is told of every end of a pack that is written under a claim, with the item
// as it stood before.
func (y *packFixture) packEnded(held, end *workflow.Pack) {
	if held == nil || held.Token != end.Token || held.Final() && held.State != end.State {
		y.violate("%s ends under token %d, and was %+v", end.Key, end.Token, held)
	}
}

func (y *packFixture) loadPack(key workflow.PackKey) *workflow.Pack {
	p, err := y.packs.Pack(y.ctx, key)
	if err != nil {
		panic(err)
	}
	return p
}

// claimsExhausted reports whether a pack has been claimed so often that it is the engine's to
// close, or that nobody can begin it any more.
func (y *packFixture) claimsExhausted() bool {
	for _, p := range y.previous {
		if p.Token >= maxClaims && !p.Final() {
			return true
		}
	}
	return false
}

// checkInvariants holds the items as they stand against what must always hold.
func (y *packFixture) checkInvariants() {
	if y.violation != "" {
		y.Fatal(y.violation)
	}
	if !y.interceptor.wrote {
		return
	}
	y.interceptor.wrote = false
	all, err := y.packs.ShardPacks(y.ctx, y.key, 0)
	if err != nil {
		y.Fatal(err)
	}
	set, err := y.packs.DoneSet(y.ctx, y.key, 0)
	if err != nil {
		y.Fatal(err)
	}
	after := map[workflow.PackKey]*workflow.Pack{}
	claimed := 0
	for _, p := range all {
		after[p.Key] = p
		y.checkPackTransition(y.previous[p.Key], p)
		if p.State == workflow.PackClaimed {
			claimed++
		}
	}
	for key := range y.previous {
		if after[key] == nil {
			y.Fatalf("pack %s has vanished", key)
		}
	}
	y.previous = after
	if w := y.stepRun.Step.Window; w > 0 && claimed > w {
		y.Fatalf("%d packs are claimed, and %d may be in flight", claimed, w)
	}
	for lane := range set.Done {
		if over, bad := y.laneOver(lane); !over || bad != set.Unsuccessful[lane] {
			y.Fatalf("lane %d is in the done set (bad %v), and is over %v, bad %v", lane, set.Unsuccessful[lane], over, bad)
		}
	}
	if y.phase == decided {
		y.checkCounts()
	}
}

// checkPackTransition holds a pack against what it was.
func (y *packFixture) checkPackTransition(before, after *workflow.Pack) {
	key := after.Key
	if before != nil {
		switch {
		case before.Final():
			if diff := cmp.Diff(before, after); diff != "" {
				y.Fatalf("%s was final and has changed: %s", key, diff)
			}
			return
		case after.Token < before.Token:
			y.Fatalf("%s: token %d became %d", key, before.Token, after.Token)
		case after.Token == before.Token && after.Lease.Before(before.Lease):
			y.Fatalf("%s: its lease went back from %s to %s", key, before.Lease, after.Lease)
		case after.Token == before.Token && before.CancelRequested && !after.CancelRequested && !after.Final():
			y.Fatalf("%s: the cancel flag is gone", key)
		case after.Token > before.Token && !before.Lease.Before(y.now):
			y.Fatalf("%s is taken at %s, and its lease runs until %s", key, y.now, before.Lease)
		}
		for _, j := range before.Jobs {
			code := jobCode(after, j.Index)
			ended := j.Code != workflow.JobCodeNone && j.Code != workflow.JobCodeStarted
			if ended && code != j.Code || j.Code == workflow.JobCodeStarted && code == workflow.JobCodeNone || code == "" {
				y.Fatalf("job %d of %s was %s and is %q", j.Index, key, j.Code, code)
			}
		}
	}
	for _, j := range after.Jobs {
		calls := len(y.calledFences[workflow.JobID(key.Execution, key.StepRunSeq, j.Index, key.Attempt)])
		timedOut := j.Failure != nil && j.Failure.Code == "TIMEOUT"
		switch {
		case j.Code == workflow.JobCodeNotExecuted && calls > 0 && !y.stepRun.Work.Pure:
			y.Fatalf("job %d of %s was called, and is said not to have been", j.Index, key)
		case (j.Code == workflow.JobCodeOK || j.Code == workflow.JobCodeFail && !timedOut) && calls == 0:
			y.Fatalf("job %d of %s is %s, and was never called", j.Index, key, j.Code)
		}
	}
}

// laneOver reports whether a lane is over, as its packs say, and whether a job of it
// has not come to OK.
func (y *packFixture) laneOver(lane int) (over, bad bool) {
	last := map[int]workflow.JobCode{}
	for attempt := 1; ; attempt++ {
		p := y.previous[y.key.Pack(lane, attempt)]
		if !p.Final() {
			return false, false
		}
		for _, j := range p.Jobs {
			last[j.Index] = j.Code
		}
		if len(workflow.RetryableJobs(p, y.stepRun.Step.MaxAttempts)) == 0 {
			break
		}
	}
	for _, code := range last {
		bad = bad || code != workflow.JobCodeOK
	}
	return true, bad
}

// checkCounts wants what was decided to be what the packs say, then and ever after,
// each job counted once.
func (y *packFixture) checkCounts() {
	last := map[int]*workflow.JobRecord{}
	for lane := range y.stepRun.Step.Lanes() {
		if over, _ := y.laneOver(lane); !over {
			y.Fatalf("it is decided, and lane %d is not over", lane)
		}
		for attempt := 1; y.previous[y.key.Pack(lane, attempt)] != nil; attempt++ {
			for i, j := range y.previous[y.key.Pack(lane, attempt)].Jobs {
				if old := last[j.Index]; j.Code == workflow.JobCodeNotExecuted && old != nil && old.Executed() {
					continue // an attempt that was never made does not undo the one before it
				}
				last[j.Index] = &y.previous[y.key.Pack(lane, attempt)].Jobs[i]
			}
		}
	}
	var want workflow.Counts
	for _, j := range last {
		switch j.Code {
		case workflow.JobCodeOK:
			want.OK++
		case workflow.JobCodeFail:
			want.Failed++
		case workflow.JobCodeUnknown:
			want.Unknown++
		case workflow.JobCodeNotExecuted:
			want.NotExecuted++
		}
	}
	got := y.counts
	if got.OK != want.OK || got.Failed != want.Failed || got.Unknown != want.Unknown || got.NotExecuted != want.NotExecuted ||
		got.OK+got.Failed+got.Unknown+got.NotExecuted != y.stepRun.Step.Jobs {
		y.Fatalf("of %d jobs %+v was counted, and the packs say %+v", y.stepRun.Step.Jobs, got, want)
	}
}
