package defgen

import (
	"fmt"
	"strings"
	"time"
)

// FlowParallel describes how the branches of a step become one result.
type FlowParallel struct {
	Branches     []FlowBranch
	Strategy     string // shallow, deep, replace or append
	OnConflict   string // preferNew, preferExisting or fail
	AllowPartial bool
	Minimum      int           // 0 for 1
	Timeout      time.Duration // of all branches; 0 for none
}

// FlowBranch is one branch and its output: values by path.
type FlowBranch struct {
	Label  string
	Steps  []FlowStep
	Result []FlowSet
}

// parallel draws a step with branches. A branch sets variables with names of its own.
func (f *Flow) parallel(s *FlowStep, depth int, handles bool) {
	p := &FlowParallel{
		Strategy:   []string{"shallow", "deep", "replace", "append"}[f.draw(4)],
		OnConflict: []string{"preferNew", "preferExisting", "fail"}[f.draw(3)], AllowPartial: f.draw(2) == 0,
	}
	outer, loops, changes := f.branch, f.loops, f.changes
	for i := range 2 + f.draw(2) {
		b := FlowBranch{Label: fmt.Sprintf("%s_%d", s.Label, i)}
		f.branch, f.open, f.changes = b.Label, append(f.open, b.Label), changes && i == 0
		b.Steps = f.list(depth+1, 1+f.draw(2), nil, handles)
		f.loops = 0
		for _, path := range f.some([]string{"p", "o.p", "o.q", "q"}, 1+f.draw(3)) {
			b.Result = append(b.Result, FlowSet{Path: path, Value: f.value(false)})
		}
		f.loops, f.open = loops, f.open[:len(f.open)-1]
		p.Branches = append(p.Branches, b)
	}
	f.branch, f.changes = outer, changes
	if p.AllowPartial {
		p.Minimum = f.draw(len(p.Branches) + 1)
	}
	s.Parallel, s.OutputKey = p, f.own("g")
}

// DrawBranches draws a definition with branches near its beginning whose failures nothing handles, perhaps in a
// loop: a retry begins with them. waits says that steps may wait.
func DrawBranches(draw func(below int) int, waits bool) *Flow {
	f := &Flow{draw: draw, further: draw(2) == 0, pure: draw(3) == 0, waits: waits, splits: true, fails: true}
	f.changes = f.further
	if draw(2) == 0 {
		f.Steps = f.list(1, 1, nil, false)
	}
	s := FlowStep{Label: f.label()}
	if draw(3) > 0 {
		f.parallel(&s, 0, false)
	} else {
		s.Loops = true
		for range 1 + draw(3) {
			s.Items = append(s.Items, draw(5))
		}
		around := FlowStep{Label: f.label()}
		f.loops++
		f.parallel(&around, 1, false)
		f.loops--
		s.Inner = []FlowStep{around}
	}
	f.Steps = append(append(f.Steps, s), f.list(1, 1+draw(2), nil, false)...)
	return f
}

// Fails reports whether the definition was drawn by [DrawBranches].
func (f *Flow) Fails() bool { return f.fails }

// Started is the name of the definition that branches start.
const Started = "d0"

// inBranch makes of a step that calls a block one that starts an execution, or one with a delay.
func (f *Flow) inBranch(s *FlowStep) {
	switch f.draw(4) {
	case 0:
		s.Block, s.OnDevices, s.OutputKey, s.Starts = "", false, "", true
	case 1:
		s.Delay = []time.Duration{3 * time.Second, 20 * time.Second, 2 * time.Minute}[f.draw(3)]
	}
	if s.Starts && f.draw(4) == 0 {
		s.Delay = 3 * time.Second
	}
}

// own returns the name of a variable that steps of the current branch set.
func (f *Flow) own(path string) string {
	if f.branch == "" {
		return path
	}
	return "v" + f.branch + "." + path
}

func (p *FlowParallel) yaml() string {
	var branches []string
	for i := range p.Branches {
		b := &p.Branches[i]
		tree := map[string][]string{}
		for _, set := range b.Result {
			around, name, nested := strings.Cut(set.Path, ".")
			if !nested {
				around, name = "", around
			}
			tree[around] = append(tree[around], fmt.Sprintf("%s: '${%s}'", name, set.Value.expr()))
		}
		result := tree[""]
		if o := tree["o"]; len(o) > 0 {
			result = append(result, "o: {"+strings.Join(o, ", ")+"}")
		}
		branches = append(branches, fmt.Sprintf("{label: %s, steps: %s, result: {%s}}", b.Label, flowList(b.Steps), strings.Join(result, ", ")))
	}
	text := fmt.Sprintf("parallel: {branches: [%s], merge: {strategy: %s, onConflict: %s}", strings.Join(branches, ",\n  "), p.Strategy, p.OnConflict)
	if p.AllowPartial {
		text += ", allowPartial: true"
	}
	if p.Minimum > 0 {
		text += fmt.Sprintf(", minimum: %d", p.Minimum)
	}
	if text += "}"; p.Timeout > 0 {
		text += ", stepTimeout: " + p.Timeout.String()
	}
	return text
}

// Branches returns the branch of each step, by label; "" for none.
func (f *Flow) Branches() map[string]string {
	branches := map[string]string{}
	f.each(func(s *FlowStep) {
		if s.Parallel == nil {
			return
		}
		for i := range s.Parallel.Branches {
			b := &s.Parallel.Branches[i]
			eachStep(b.Steps, func(inner *FlowStep) { branches[inner.Label] = b.Label }) // nested branches come later and replace this
		}
	})
	return branches
}
