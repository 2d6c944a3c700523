package defgen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FlowRollout describes how the nested steps are executed wave by wave.
type FlowRollout struct {
	Shares []FlowShare // how many devices have had their turn after each wave; nil if By decides
	By     []string    // the devices of the wave "b"; the others are in the wave "a"
	Order  []string    // of the waves by name

	Between     *FlowStep // what happens between two waves, nil for nothing
	Tolerated   *FlowShare
	RollbackAll bool // a wave that fails fails the execution
}

// FlowShare is a count, or a percentage.
type FlowShare struct {
	Count   int
	Percent int // 0 for a count
}

func (s FlowShare) String() string {
	if s.Percent > 0 {
		return fmt.Sprintf("%d%%", s.Percent)
	}
	return fmt.Sprint(s.Count)
}

// FlowEach is a list. The step calls its block for each item.
type FlowEach struct {
	Items     []int
	Above     *int // only items above it take part
	Tolerated FlowShare
}

// DrawRollouts draws a definition with rollouts and foreach. waits and splits are as in DrawFlow.
func DrawRollouts(draw func(below int) int, waits, splits bool) *Flow {
	f := &Flow{draw: draw, pure: draw(4) == 0, waits: waits, splits: splits, rolls: true, Tolerated: draw(3) / 2}
	f.Steps = f.list(0, 2+draw(3), nil, false)
	if n := draw(4); n > 0 {
		f.config = fmt.Sprintf("maxInFlight: %d, ", n)
	}
	has := false
	f.each(func(s *FlowStep) { has = has || s.Rollout != nil })
	if !has {
		s := FlowStep{Label: f.label()}
		f.rollout(&s, 0)
		f.Steps = append(f.Steps, s)
	}
	return f
}

// Rolls reports whether the definition was drawn with rollouts and foreach.
func (f *Flow) Rolls() bool { return f.rolls }

// Contains reports whether a label belongs to the step or to one in it.
func (s *FlowStep) Contains(label string) (is bool) {
	eachStep([]FlowStep{*s}, func(inner *FlowStep) { is = is || inner.Label == label })
	return is
}

// rollOut draws a step with a rollout or foreach, and reports whether it did.
func (f *Flow) rollOut(s *FlowStep, depth int, targets []string) bool {
	switch kind := f.draw(8); {
	case kind < 2 && depth == 0 && !f.inWave:
		f.rollout(s, depth)
	case kind == 2 || kind == 3:
		f.foreach(s)
	case kind == 4 && f.waits:
		f.asking(s, targets)
	default:
		return false
	}
	return true
}

func (f *Flow) rollout(s *FlowStep, depth int) {
	o := &FlowRollout{RollbackAll: f.draw(4) == 0}
	if f.draw(2) == 0 {
		all := []FlowShare{{Count: 1}, {Count: 2}, {Percent: 30}, {Percent: 50}, {Count: 4}}
		from := f.draw(len(all))
		o.Shares = all[from:min(len(all), from+1+f.draw(3))]
	} else {
		for i := range 5 {
			if f.draw(2) == 0 {
				o.By = append(o.By, fmt.Sprintf("d%03d", i))
			}
		}
		o.Order = [][]string{nil, {"b"}, {"x", "b", "a"}}[f.draw(3)]
	}
	switch f.draw(4) {
	case 0:
		o.Between = &FlowStep{Label: s.Label + "_pause", Wait: []time.Duration{3 * time.Second, 20 * time.Second, 70 * time.Second}[f.draw(3)]}
	case 1:
		if !f.waits {
			break
		}
		a := &FlowAsk{Need: 1 + f.draw(2), Deadline: []time.Duration{40 * time.Second, 150 * time.Second}[f.draw(2)], NotStarter: f.draw(4) == 0}
		if f.draw(2) == 0 {
			a.Role = Role
		}
		o.Between = &FlowStep{Label: s.Label + "_approval", Ask: a}
	}
	if f.draw(3) > 0 {
		o.Tolerated = &[]FlowShare{{}, {Count: 1}, {Count: 2}, {Percent: 34}, {Percent: 50}}[f.draw(5)]
	}
	f.inWave = true
	first := FlowStep{Label: f.label(), Block: f.deviceBlock(), OnDevices: true, Value: f.value(false)}
	s.Inner, s.Rollout = append([]FlowStep{first}, f.list(depth+1, 1+f.draw(2), nil, false)...), o
	f.inWave = false
}

// deviceBlock returns a block that is called for each device.
func (f *Flow) deviceBlock() string {
	if f.pure {
		return "pure"
	}
	return []string{"pure", "again", "again", "again", "once", "forever"}[f.draw(6)]
}

func (f *Flow) foreach(s *FlowStep) {
	e := &FlowEach{Tolerated: []FlowShare{{}, {}, {Count: 1}, {Percent: 50}}[f.draw(4)]}
	for range f.draw(5) {
		e.Items = append(e.Items, f.draw(5))
	}
	if f.draw(3) == 0 {
		n := f.draw(4)
		e.Above = &n
	}
	s.Block, s.Each = "pure", e
	if !f.pure && f.draw(2) == 0 {
		s.Block = "again"
	}
	loops, indexed := f.loops, f.indexed
	f.loops, f.indexed = max(1, loops), false
	s.Value = f.value(false)
	f.loops, f.indexed = loops, indexed
	if f.draw(2) == 0 {
		s.OutputKey = f.own("e")
	}
}

// asking draws a step whose block is called once, and either somebody has to answer what it has
// sent, or it asks to wait for a time.
func (f *Flow) asking(s *FlowStep, targets []string) {
	s.Block, s.Value = "pure", f.value(false)
	if !f.pure && f.draw(2) == 0 {
		s.Block = "again"
	}
	if f.draw(2) == 0 {
		s.OutputKey = f.own([]string{"r", "m.r"}[f.draw(2)])
	}
	if f.draw(3) == 0 {
		s.Asks = []time.Duration{3 * time.Second, 70 * time.Second}[f.draw(2)]
		return
	}
	a := &FlowAsk{Least: f.draw(4), Deadline: []time.Duration{8 * time.Second, 40 * time.Second, 150 * time.Second}[f.draw(3)], NotStarter: f.draw(4) == 0}
	if f.draw(2) == 0 {
		a.Role = Role
	}
	switch n := a.Least + f.draw(3); f.draw(4) {
	case 0:
		a.OnTimeout = f.target(targets)
	case 1:
		a.Default = &n
	}
	s.Ask, s.Callback = a, true
}

// yaml returns the rollout with what happens between two waves.
func (o *FlowRollout) yaml() string {
	var fields []string
	add := func(format string, args ...any) { fields = append(fields, fmt.Sprintf(format, args...)) }
	if o.Shares != nil {
		add("batches: %s", strings.ReplaceAll(fmt.Sprint(o.Shares), " ", ", "))
	} else {
		var ids []string
		for _, id := range o.By {
			ids = append(ids, fmt.Sprintf("%q", id))
		}
		add("by: 'entity.id in [%s] ? \"b\" : \"a\"'", strings.Join(ids, ", "))
	}
	if o.Order != nil {
		add("order: [%s]", strings.Join(o.Order, ", "))
	}
	switch b := o.Between; {
	case b == nil:
	case b.Ask != nil:
		add("approve: %s", strings.TrimPrefix(b.Ask.yaml(), "approval: "))
	default:
		add("pause: %s", b.Wait)
	}
	if o.Tolerated != nil {
		add("failureTolerance: %s", o.Tolerated)
	} else {
		add("maxParallel: 1") // as without it
	}
	if o.RollbackAll {
		add("onFailure: rollbackAll")
	}
	return "rollout: {" + strings.Join(fields, ", ") + "}"
}

func (e *FlowEach) yaml(value FlowValue) string {
	text := fmt.Sprintf("runOn: item, foreach: {items: '${%s}', failureTolerance: %s}", strings.ReplaceAll(fmt.Sprint(e.Items), " ", ", "), e.Tolerated)
	if e.Above != nil {
		text += fmt.Sprintf(", condition: item > %d", *e.Above)
	}
	return text + fmt.Sprintf(", parameters: {v: '${%s}'}", value.expr())
}

// Takes reports whether an item takes part.
func (e *FlowEach) Takes(item int) bool { return e.Above == nil || item > *e.Above }

// WaveNames returns the names of the waves by value, in order, of the values that were found.
func (o *FlowRollout) WaveNames(found ...string) (names []string) {
	for _, name := range o.Order {
		if slices.Contains(found, name) {
			names = append(names, name)
		}
	}
	for _, name := range []string{"a", "b"} {
		if slices.Contains(found, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
