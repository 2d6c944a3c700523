package protocol_test

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func (y *yard) breaks(format string, args ...any) {
	if y.broken == "" {
		y.broken = fmt.Sprintf(format, args...)
	}
}

// begins is told of every call of a block, as it begins.
func (y *yard) begins(job *worker.Job) {
	if y.run.Work.Pure {
		y.begun[job.ID] = append(y.begun[job.ID], job.Fence)
		return // what changes nothing may be called at any time
	}
	i, key := indexOf(job), y.key.Pack(indexOf(job)/y.run.Step.PackSize, job.Attempt)
	switch before := y.begun[job.ID]; {
	case len(before) > 0 && !y.run.Work.Repeatable():
		y.breaks("job %s is called twice, with fence %s after %s", job.ID, job.Fence, before)
	case slices.Contains(before, job.Fence):
		y.breaks("job %s is called twice under one claim, with fence %s", job.ID, job.Fence)
	case y.phase == decided:
		y.breaks("job %s begins, and what comes of its step is decided", job.ID)
	case job.Fence < y.device[i]:
		y.breaks("job %s begins under its claim, and its device refuses %s after %s", job.ID, job.Fence, y.device[i])
	}
	y.begun[job.ID] = append(y.begun[job.ID], job.Fence)
	y.device[i] = max(y.device[i], job.Fence)
	p := y.read(key)
	if p == nil || p.State != workflow.PackClaimed || codeOf(p, i) != workflow.CodeStarted || job.Fence != workflow.Fence(job.Token, key.RunSeq, key.Attempt, p.Token) {
		y.breaks("job %s begins with fence %s, and its pack is %+v", job.ID, job.Fence, p)
	}
	if job.Attempt > 1 {
		key.Attempt--
		if p := y.read(key); p == nil || p.State != workflow.PackFinished || codeOf(p, i) != workflow.CodeFail {
			y.breaks("job %s begins, and the attempt before it is %+v", job.ID, p)
		}
	}
}

func codeOf(p *workflow.Pack, index int) workflow.JobCode {
	for _, j := range p.Jobs {
		if j.Index == index {
			return j.Code
		}
	}
	return ""
}

// ends is told of every end of a pack that is written under a claim, with the item
// as it stood before.
func (y *yard) ends(held, end *workflow.Pack) {
	if held == nil || held.Token != end.Token || held.Final() && held.State != end.State {
		y.breaks("%s ends under token %d, and was %+v", end.Key, end.Token, held)
	}
}

func (y *yard) read(key workflow.PackKey) *workflow.Pack {
	p, err := y.items.Pack(y.ctx, key)
	if err != nil {
		panic(err)
	}
	return p
}

// worn reports whether a pack has been claimed so often that it is the engine's to
// close, or that nobody can begin it any more.
func (y *yard) worn() bool {
	for _, p := range y.before {
		if p.Token >= tmax && !p.Final() {
			return true
		}
	}
	return false
}

// judge holds the items as they stand against what must always hold.
func (y *yard) judge() {
	if y.broken != "" {
		y.Fatal(y.broken)
	}
	if !y.gate.wrote {
		return
	}
	y.gate.wrote = false
	all, err := y.items.Shard(y.ctx, y.key, 0)
	if err != nil {
		y.Fatal(err)
	}
	set, err := y.items.Done(y.ctx, y.key, 0)
	if err != nil {
		y.Fatal(err)
	}
	after := map[workflow.PackKey]*workflow.Pack{}
	claimed := 0
	for _, p := range all {
		after[p.Key] = p
		y.moved(y.before[p.Key], p)
		if p.State == workflow.PackClaimed {
			claimed++
		}
	}
	for key := range y.before {
		if after[key] == nil {
			y.Fatalf("pack %s has vanished", key)
		}
	}
	y.before = after
	if w := y.run.Step.Window; w > 0 && claimed > w {
		y.Fatalf("%d packs are claimed, and %d may be in flight", claimed, w)
	}
	for lane := range set.Done {
		if over, bad := y.over(lane); !over || bad != set.Bad[lane] {
			y.Fatalf("lane %d is in the done set (bad %v), and is over %v, bad %v", lane, set.Bad[lane], over, bad)
		}
	}
	if y.phase == decided {
		y.counted()
	}
}

// moved holds a pack against what it was.
func (y *yard) moved(before, after *workflow.Pack) {
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
		case after.Token == before.Token && before.Cancel && !after.Cancel && !after.Final():
			y.Fatalf("%s: the cancel flag is gone", key)
		case after.Token > before.Token && !before.Lease.Before(y.now):
			y.Fatalf("%s is taken at %s, and its lease runs until %s", key, y.now, before.Lease)
		}
		for _, j := range before.Jobs {
			code := codeOf(after, j.Index)
			ended := j.Code != workflow.CodeNone && j.Code != workflow.CodeStarted
			if ended && code != j.Code || j.Code == workflow.CodeStarted && code == workflow.CodeNone || code == "" {
				y.Fatalf("job %d of %s was %s and is %q", j.Index, key, j.Code, code)
			}
		}
	}
	for _, j := range after.Jobs {
		calls := len(y.begun[workflow.JobID(key.Execution, key.RunSeq, j.Index, key.Attempt)])
		timedOut := j.Failure != nil && j.Failure.Code == "TIMEOUT"
		switch {
		case j.Code == workflow.CodeNotExecuted && calls > 0 && !y.run.Work.Pure:
			y.Fatalf("job %d of %s was called, and is said not to have been", j.Index, key)
		case (j.Code == workflow.CodeOK || j.Code == workflow.CodeFail && !timedOut) && calls == 0:
			y.Fatalf("job %d of %s is %s, and was never called", j.Index, key, j.Code)
		}
	}
}

// over reports whether a lane is over, as its packs say, and whether a job of it
// has not come to OK.
func (y *yard) over(lane int) (over, bad bool) {
	last := map[int]workflow.JobCode{}
	for attempt := 1; ; attempt++ {
		p := y.before[y.key.Pack(lane, attempt)]
		if !p.Final() {
			return false, false
		}
		for _, j := range p.Jobs {
			last[j.Index] = j.Code
		}
		if len(workflow.Retries(p, y.run.Step.MaxAttempts)) == 0 {
			break
		}
	}
	for _, code := range last {
		bad = bad || code != workflow.CodeOK
	}
	return true, bad
}

// counted wants what was decided to be what the packs say, then and ever after,
// each job counted once.
func (y *yard) counted() {
	last := map[int]*workflow.JobRecord{}
	for lane := range y.run.Step.Lanes() {
		if over, _ := y.over(lane); !over {
			y.Fatalf("it is decided, and lane %d is not over", lane)
		}
		for attempt := 1; y.before[y.key.Pack(lane, attempt)] != nil; attempt++ {
			for i, j := range y.before[y.key.Pack(lane, attempt)].Jobs {
				if old := last[j.Index]; j.Code == workflow.CodeNotExecuted && old != nil && old.Executed() {
					continue // an attempt that was never made does not undo the one before it
				}
				last[j.Index] = &y.before[y.key.Pack(lane, attempt)].Jobs[i]
			}
		}
	}
	var want workflow.Tally
	for _, j := range last {
		switch j.Code {
		case workflow.CodeOK:
			want.OK++
		case workflow.CodeFail:
			want.Failed++
		case workflow.CodeUnknown:
			want.Unknown++
		case workflow.CodeNotExecuted:
			want.NotExecuted++
		}
	}
	got := y.tally
	if got.OK != want.OK || got.Failed != want.Failed || got.Unknown != want.Unknown || got.NotExecuted != want.NotExecuted ||
		got.OK+got.Failed+got.Unknown+got.NotExecuted != y.run.Step.Jobs {
		y.Fatalf("of %d jobs %+v was counted, and the packs say %+v", y.run.Step.Jobs, got, want)
	}
}
