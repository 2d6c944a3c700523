package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A new try that begins with a step with branches does not execute again those that have ended well. What
// they did is followed as if it stood where it did.

// keptBranches are the branches that a try does not execute again.
type keptBranches struct {
	fork    string // the entry of their step
	index   map[int]bool
	runs    []int // Seq of the step runs in them
	entries map[string]keptEntry
}

// keptEntry is an entry in such a branch: which try has made it, and who was not called in it.
type keptEntry struct {
	by   flowTry
	keep map[string]keptJob
}

// name says which time of which step an entry is.
func (e *FlowEntry) name() string { return fmt.Sprint(e.Label, " ", e.Nth) }

func (k *keptBranches) keeps(e *FlowEntry) bool {
	_, kept := k.entries[e.name()]
	return kept
}

// has reports whether a step was entered in a kept branch of another one, for its own nth time.
func (k *keptBranches) has(label string, n int, around FlowEntry) bool {
	return k.fork == around.name() && k.keeps(&FlowEntry{Label: label, Nth: n})
}

// tryOf is the try that has made an entry.
func (f *followed) tryOf(e *FlowEntry, at int) *flowTry {
	for _, k := range f.retries.allKept() {
		if kept, in := k.entries[e.name()]; in {
			return &kept.by
		}
	}
	return f.tryAt(at)
}

// allKept are the branches that the present try has kept, and those that tries before have, of steps that stand.
func (r *retried) allKept() []keptBranches { return append(slices.Clone(r.stand), r.branches) }

// hasKept reports whether a step was entered in such a branch of another one, for its own nth time.
func (r *retried) hasKept(label string, n int, around FlowEntry) bool {
	return slices.ContainsFunc(r.allKept(), func(k keptBranches) bool { return k.has(label, n, around) })
}

// standing are the branches that were kept by the tries so far, of steps that stand when another begins.
func (r *retried) standing(run *FlowRun, begin int) (stand []keptBranches) {
	for i := range run.Entered[:min(begin, len(run.Entered))] {
		for _, k := range r.allKept() {
			if k.fork == run.Entered[i].name() {
				stand = append(stand, k)
			}
		}
	}
	return stand
}

func textsOf(v any) (texts []string) {
	list, _ := v.([]any)
	for _, one := range list {
		texts = append(texts, fmt.Sprint(one))
	}
	return texts
}

// branchOf names a branch of a step that was entered so many times.
func branchOf(label string, ordinal int, branch string) string {
	return fmt.Sprint(label, " ", ordinal, " ", branch)
}

// endsBranch notes which branches have ended well, by the history.
func (f *followed) endsBranch(before *workflow.Execution, e workflow.Event) {
	if e.Sequence <= before.Sequence {
		return
	}
	if sm.Event(e.Type) == sm.EventStepEntered {
		f.times[e.Step]++
	}
	if label, branch, ok := strings.Cut(e.Step, "."); ok && sm.Event(e.Type) == sm.EventWorkflowCompleted {
		f.ended[branchOf(label, f.times[label], branch)] = true
	}
}

// branchesToKeep are the branches that a try has to keep, and tells whether that is known. Where the try before
// has executed nothing, they are the same.
func (f *followed) branchesToKeep(x *workflow.Execution, run *FlowRun, t *flowTry, nothing bool, told []string) (kept map[int]bool, known bool) {
	kept = map[int]bool{}
	var labels []string
	if t.at < len(run.Entered) {
		e := &run.Entered[t.at]
		if s := f.definition.Find(e.Label); s != nil && s.Parallel != nil {
			if nothing {
				maps.Copy(kept, f.retries.branches.index)
			} else if kept, known = f.endedWell(run, t, f.present().number); !known {
				return nil, false
			}
			for i := range s.Parallel.Branches {
				if kept[i] {
					labels = append(labels, s.Parallel.Branches[i].Label)
				}
			}
		}
	}
	if !slices.Equal(told, labels) && (t.failed || len(told) > 0) {
		f.Failf(lawRetried, "try %d of %s keeps branches %q, want %q", x.Try, x.ID, told, labels)
	}
	if len(told) == 0 { // an operator may have asked for all
		kept = map[int]bool{}
	}
	return kept, true
}

// endedWell are the branches of the step with which a try begins that have ended well, and of which nothing was
// undone; none if these are all.
func (f *followed) endedWell(run *FlowRun, t *flowTry, last int) (well map[int]bool, known bool) {
	well = map[int]bool{}
	e := &run.Entered[t.at]
	r := f.find(e.Label, e.Nth)
	if r == nil || r.Handled > 0 {
		return well, true
	}
	s, since := f.definition.Find(e.Label), f.since(t, last)
	came := run.Failed == nil && !run.Pending
	for i, span := range run.spans[t.at] {
		kept := f.retries.branches.fork == e.name() && f.retries.branches.index[i]
		if !kept && !f.ended[branchOf(r.Label, r.Ordinal, s.Parallel.Branches[i].Label)] {
			continue
		}
		if !span.well {
			f.Failf(lawRetried, "branch %s of step run %d of %s is told to have ended well", s.Parallel.Branches[i].Label, r.Seq, f.x.ID)
		}
		again := false
		for at := span.from; at < span.to; at++ {
			todo, known := f.isToRepeat(&run.Entered[at], at, t, since, came)
			if !known {
				return nil, false
			}
			again = again || todo
		}
		if !again {
			well[i] = true
		}
	}
	if len(well) == len(s.Parallel.Branches) {
		return map[int]bool{}, true
	}
	return well, true
}

// isToRepeat reports whether an entry in a branch that has ended well has to be made again.
func (f *followed) isToRepeat(e *FlowEntry, at int, t *flowTry, since int, came bool) (again, known bool) {
	r := f.find(e.Label, e.Nth)
	if r == nil || f.tryOf(e, at).number > since {
		return true, true
	}
	s := f.definition.Find(e.Label)
	if s == nil || s.Block == "" {
		return false, true
	}
	if !s.OnDevices {
		again = f.anyUndone(f.x, r.Seq, since)
		for _, k := range e.Keep {
			again = again || f.anyUndone(f.x, k.seq, since)
		}
		return again, true
	}
	for _, id := range t.devices {
		seq := r.Seq
		if k, kept := e.Keep[id]; kept {
			seq = k.seq
		}
		touched, known := f.undone(f.x, seq, id, since)
		if !known {
			return false, false
		}
		index := slices.Index(e.Entities, id)
		if c, _ := f.latest(r.Seq, max(index, 0)); touched || came && index >= 0 && c.code != workflow.JobCodeOK {
			again = true
		}
	}
	return again, true
}

// keptBranches are the entries of branches of the step with a number.
func (f *followed) keptBranches(run *FlowRun, fork int, index map[int]bool) (k keptBranches) {
	if len(index) == 0 {
		return k
	}
	k = keptBranches{fork: run.Entered[fork].name(), index: index, entries: map[string]keptEntry{}}
	for i, span := range run.spans[fork] {
		for at := span.from; index[i] && at < span.to; at++ {
			e := &run.Entered[at]
			k.runs = append(k.runs, f.find(e.Label, e.Nth).Seq)
			k.entries[e.name()] = keptEntry{by: *f.tryOf(e, at), keep: e.Keep}
		}
	}
	return k
}

// HasFailingBranches reports whether the definition of an execution was drawn with branches with which retries begin.
func (o *Oracle) HasFailingBranches(id string) bool {
	x := o.executions[id]
	return x != nil && x.followed != nil && x.followed.definition.Fails()
}
