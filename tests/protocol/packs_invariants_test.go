package protocol_test

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func (f *packFixture) violate(format string, args ...any) {
	if f.violation == "" {
		f.violation = fmt.Sprintf(format, args...)
	}
}

// blockCalled checks a call of a block as it begins.
func (f *packFixture) blockCalled(job *worker.Job) {
	if f.stepRun.Work.Pure {
		f.calledFences[job.ID] = append(f.calledFences[job.ID], job.Fence)
		return // a pure block may be called at any time
	}
	i, key := jobIndex(job), f.key.Pack(jobIndex(job)/f.stepRun.Step.PackSize, job.Attempt)
	switch before := f.calledFences[job.ID]; {
	case len(before) > 0 && !f.stepRun.Work.Repeatable():
		f.violate("job %s was called again, with fence %s after %s", job.ID, job.Fence, before)
	case slices.Contains(before, job.Fence):
		f.violate("job %s was called twice under one claim, with fence %s", job.ID, job.Fence)
	case f.phase == decided:
		f.violate("job %s began after the result of its step was decided", job.ID)
	case job.Fence < f.highestFence[i]:
		f.violate("job %s began with fence %s, which the device rejects after %s", job.ID, job.Fence, f.highestFence[i])
	}
	f.calledFences[job.ID] = append(f.calledFences[job.ID], job.Fence)
	f.highestFence[i] = max(f.highestFence[i], job.Fence)
	p := f.loadPack(key)
	if p == nil || p.State != workflow.PackClaimed || jobCode(p, i) != workflow.JobCodeStarted || job.Fence != workflow.Fence(job.Token, key.StepRunSeq, key.Attempt, p.Token) {
		f.violate("job %s began with fence %s, but its pack is %+v", job.ID, job.Fence, p)
	}
	if job.Attempt > 1 {
		key.Attempt--
		if p := f.loadPack(key); p == nil || p.State != workflow.PackFinished || jobCode(p, i) != workflow.JobCodeFail {
			f.violate("job %s began, but the attempt before it is %+v", job.ID, p)
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

// packEnded checks a pack that was finished under a claim, against the item as it was
// before.
func (f *packFixture) packEnded(held, end *workflow.Pack) {
	if held == nil || held.Token != end.Token || held.Final() && held.State != end.State {
		f.violate("%s was finished under token %d, but was %+v", end.Key, end.Token, held)
	}
}

func (f *packFixture) loadPack(key workflow.PackKey) *workflow.Pack {
	p, err := f.packs.Pack(f.ctx, key)
	if err != nil {
		panic(err)
	}
	return p
}

// claimsExhausted reports whether a pack has been claimed as often as it may be, so that
// the engine has to close it.
func (f *packFixture) claimsExhausted() bool {
	for _, p := range f.previous {
		if p.Token >= maxClaims && !p.Final() {
			return true
		}
	}
	return false
}

// checkInvariants checks what must hold after every action.
func (f *packFixture) checkInvariants() {
	if f.violation != "" {
		f.Fatal(f.violation)
	}
	if !f.interceptor.wrote {
		return
	}
	f.interceptor.wrote = false
	all, err := f.packs.ShardPacks(f.ctx, f.key, 0)
	if err != nil {
		f.Fatal(err)
	}
	set, err := f.packs.DoneSet(f.ctx, f.key, 0)
	if err != nil {
		f.Fatal(err)
	}
	after := map[workflow.PackKey]*workflow.Pack{}
	claimed := 0
	for _, p := range all {
		after[p.Key] = p
		f.checkPackTransition(f.previous[p.Key], p)
		if p.State == workflow.PackClaimed {
			claimed++
		}
	}
	for key := range f.previous {
		if after[key] == nil {
			f.Fatalf("pack %s was deleted", key)
		}
	}
	f.previous = after
	if w := f.stepRun.Step.Window; w > 0 && claimed > w {
		f.Fatalf("%d packs are claimed, but the window is %d", claimed, w)
	}
	for lane := range set.Done {
		if over, unsuccessful := f.laneOver(lane); !over || unsuccessful != set.Unsuccessful[lane] {
			f.Fatalf("lane %d is in the done set (unsuccessful: %v), but by its packs over: %v, unsuccessful: %v", lane, set.Unsuccessful[lane], over, unsuccessful)
		}
	}
	if f.phase == decided {
		f.checkCounts()
	}
}

// checkPackTransition checks a pack against what it was before.
func (f *packFixture) checkPackTransition(before, after *workflow.Pack) {
	key := after.Key
	if before != nil {
		switch {
		case before.Final():
			if diff := cmp.Diff(before, after); diff != "" {
				f.Fatalf("%s was final and changed: %s", key, diff)
			}
			return
		case after.Token < before.Token:
			f.Fatalf("%s: the token went from %d to %d", key, before.Token, after.Token)
		case after.Token == before.Token && after.Lease.Before(before.Lease):
			f.Fatalf("%s: the lease went back from %s to %s", key, before.Lease, after.Lease)
		case after.Token == before.Token && before.CancelRequested && !after.CancelRequested && !after.Final():
			f.Fatalf("%s: the cancel flag was removed", key)
		case after.Token > before.Token && !before.Lease.Before(f.now):
			f.Fatalf("%s was taken over at %s, but its lease lasts until %s", key, f.now, before.Lease)
		}
		for _, j := range before.Jobs {
			code := jobCode(after, j.Index)
			ended := j.Code != workflow.JobCodeNone && j.Code != workflow.JobCodeStarted
			if ended && code != j.Code || j.Code == workflow.JobCodeStarted && code == workflow.JobCodeNone || code == "" {
				f.Fatalf("job %d of %s went from %s to %q", j.Index, key, j.Code, code)
			}
		}
	}
	for _, j := range after.Jobs {
		calls := len(f.calledFences[workflow.JobID(key.Execution, key.StepRunSeq, j.Index, key.Attempt)])
		timedOut := j.Failure != nil && j.Failure.Code == "TIMEOUT"
		switch {
		case j.Code == workflow.JobCodeNotExecuted && calls > 0 && !f.stepRun.Work.Pure:
			f.Fatalf("job %d of %s was called, but has the result NOT_EXECUTED", j.Index, key)
		case (j.Code == workflow.JobCodeOK || j.Code == workflow.JobCodeFail && !timedOut) && calls == 0:
			f.Fatalf("job %d of %s is %s, but was never called", j.Index, key, j.Code)
		}
	}
}

// laneOver reports whether a lane is over by its packs, and whether a job of it is not
// OK.
func (f *packFixture) laneOver(lane int) (over, unsuccessful bool) {
	last := map[int]workflow.JobCode{}
	for attempt := 1; ; attempt++ {
		p := f.previous[f.key.Pack(lane, attempt)]
		if !p.Final() {
			return false, false
		}
		for _, j := range p.Jobs {
			last[j.Index] = j.Code
		}
		if len(workflow.RetryableJobs(p, f.stepRun.Step.MaxAttempts)) == 0 {
			break
		}
	}
	for _, code := range last {
		unsuccessful = unsuccessful || code != workflow.JobCodeOK
	}
	return true, unsuccessful
}

// checkCounts checks that the counts that were decided are those of the packs, now and
// whenever packs change later, with each job counted once.
func (f *packFixture) checkCounts() {
	last := map[int]*workflow.JobRecord{}
	for lane := range f.stepRun.Step.Lanes() {
		if over, _ := f.laneOver(lane); !over {
			f.Fatalf("the step is decided, but lane %d is not over", lane)
		}
		for attempt := 1; f.previous[f.key.Pack(lane, attempt)] != nil; attempt++ {
			for i, j := range f.previous[f.key.Pack(lane, attempt)].Jobs {
				if old := last[j.Index]; j.Code == workflow.JobCodeNotExecuted && old != nil && old.Executed() {
					continue // an attempt that was not made does not replace the one before it
				}
				last[j.Index] = &f.previous[f.key.Pack(lane, attempt)].Jobs[i]
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
	got := f.counts
	if got.OK != want.OK || got.Failed != want.Failed || got.Unknown != want.Unknown || got.NotExecuted != want.NotExecuted ||
		got.OK+got.Failed+got.Unknown+got.NotExecuted != f.stepRun.Step.Jobs {
		f.Fatalf("%d jobs: counted %+v, but the packs have %+v", f.stepRun.Step.Jobs, got, want)
	}
}
