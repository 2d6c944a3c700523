package oracle

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// branches executes the branches of a step one after another, each as if it did not know the
// others, and merges their outputs.
func (r *FlowRun) branches(s *defgen.FlowStep) flowEnd {
	p := s.Parallel
	before, around := *r, r.closed
	if r.Closed(s.Label, r.counts[s.Label]) {
		around = &FlowEntry{Label: s.Label, Nth: r.counts[s.Label]}
	}
	failure := r.error
	var writes []flowWrite
	var given []branchResult
	var failed []*FlowFailure
	timedOut := false
	goesOn := flowEnd{}
	begun := len(r.Entered) - 1
	r.breakable, r.forks = false, append(r.forks, begun)
	defer func() { r.breakable, r.forks = before.breakable, before.forks }()
	for i := range p.Branches {
		b := &p.Branches[i]
		r.Vars, r.error, r.writes, r.closed = before.Vars, before.error, nil, around
		from := len(r.Entered)
		end := r.list(b.Steps)
		switch late := end.failed == nil || end.failed == closed; {
		case late && r.Late(r, begun, i, from, end.failed == nil):
			failed, timedOut = append(failed, failureIn(s.Label, workflow.FailureTimeout)), true
		case end.failed == nil:
			given = append(given, branchResult{b.Label, r.resultOf(b)})
		case end.failed == pending, end.failed == closed:
			goesOn = end
		default:
			failed = append(failed, end.failed)
		}
		r.spans[begun] = append(r.spans[begun], flowSpan{from, len(r.Entered), len(given) > len(r.wellIn(begun))})
		writes = append(writes, r.writes...)
		if r.error != before.error {
			failure = r.error
		}
	}
	r.Vars, r.error, r.writes, r.closed = before.Vars, failure, before.writes, before.closed
	for _, w := range writes {
		r.write(w.path, w.value)
	}
	if len(failed) > 0 && (!p.AllowPartial || len(p.Branches)-len(failed) < max(1, p.Minimum)) {
		first := failed[0]
		if timedOut {
			first = failureIn(s.Label, workflow.FailureTimeout)
		}
		return flowEnd{failed: &FlowFailure{Step: first.Step, Code: first.Code, Seen: s.Label, branches: failed}}
	}
	if goesOn.failed != nil {
		return goesOn
	}
	for _, why := range failed {
		r.loses(why)
	}
	if r.Cancelled(s.Label, before.counts[s.Label]) {
		return flowEnd{failed: closed} // together with the branches around it, when that one was over
	}
	merged, ok := mergeResults(p, given)
	if !ok {
		return flowEnd{failed: failureIn(s.Label, workflow.FailureMergeConflict)}
	}
	r.write(s.OutputKey, merged)
	return flowEnd{}
}

// loses excludes the entities that failed in an excluded branch from what follows.
func (r *FlowRun) loses(why *FlowFailure) {
	for _, id := range why.who {
		r.Lost[id], r.LostAt[id] = true, why.at
	}
	for _, inner := range why.branches {
		r.loses(inner)
	}
}

// flowSpan are the entries of a branch, by number, and whether it has ended well.
type flowSpan struct {
	from, to int
	well     bool
}

// isBeside reports whether an entry is in a branch beside the current one.
func (r *FlowRun) isBeside(at int) bool {
	return slices.ContainsFunc(r.forks, func(fork int) bool {
		return slices.ContainsFunc(r.spans[fork], func(s flowSpan) bool { return s.from <= at && at < s.to })
	})
}

// wellIn are the branches that have ended well of the step with a number.
func (r *FlowRun) wellIn(at int) (well []flowSpan) {
	for _, span := range r.spans[at] {
		if span.well {
			well = append(well, span)
		}
	}
	return well
}

// forgive forgets who has failed in the branches of a step, because its failure is handled.
func (r *FlowRun) forgive(s *defgen.FlowStep) {
	if s.Parallel == nil {
		return
	}
	begun := r.lastOf(s.Label)
	for id, at := range r.LostAt {
		if at > begun {
			delete(r.Lost, id)
			delete(r.LostAt, id)
		}
	}
}

// lastOf returns the number of the last entry of a step; that of the next entry if it has none.
func (r *FlowRun) lastOf(label string) int {
	for at := len(r.Entered) - 1; at >= 0; at-- {
		if r.Entered[at].Label == label {
			return at
		}
	}
	return len(r.Entered)
}

// branchResult is the output of a branch.
type branchResult struct {
	label string
	value map[string]any
}

func (r *FlowRun) resultOf(b *defgen.FlowBranch) map[string]any {
	all := map[string]any{}
	for _, set := range b.Result {
		into := all
		around, name, nested := strings.Cut(set.Path, ".")
		if !nested {
			name = around
		} else if into, _ = all[around].(map[string]any); into == nil {
			into = map[string]any{}
			all[around] = into
		}
		into[name] = r.value(set.Value)
	}
	return all
}

// mergeResults merges the outputs of branches into one value, in the order of the branches. It
// returns false if they conflict and must not.
func mergeResults(p *defgen.FlowParallel, given []branchResult) (merged any, ok bool) {
	switch p.Strategy {
	case "replace":
		if len(given) == 0 {
			return nil, true
		}
		return given[len(given)-1].value, true
	case "append":
		list := []any{}
		for _, g := range given {
			list = append(list, g.value)
		}
		return list, true
	}
	all := map[string]any{}
	for _, g := range given {
		if !mergeInto(all, g.value, p) {
			return nil, false
		}
	}
	return all, true
}

func mergeInto(into, from map[string]any, p *defgen.FlowParallel) bool {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		old, taken := into[name]
		inner, isObject := from[name].(map[string]any)
		outer, wasObject := old.(map[string]any)
		switch {
		case !taken:
			into[name] = from[name]
		case p.Strategy == "deep" && isObject && wasObject:
			outer = maps.Clone(outer)
			if into[name] = outer; !mergeInto(outer, inner, p) {
				return false
			}
		case reflect.DeepEqual(old, from[name]) || p.OnConflict == "preferExisting":
		case p.OnConflict == "fail":
			return false
		default:
			into[name] = from[name]
		}
	}
	return true
}
