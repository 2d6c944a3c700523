package plot

import "fmt"

// Choose draws a number from 0 up to below n; what says of what.
type Choose func(what string, n int) int

// rarely is true once in n times, and never where a drawing is at its smallest.
func (c Choose) rarely(what string, n int) bool { return c(what, n) == n-1 }

func one[T any](c Choose, what string, of ...T) T { return of[c(what, len(of))] }

// drawing is a definition that is being drawn.
type drawing struct {
	Choose
	n      int      // steps so far
	others []string // definitions it may refer to
	rich   bool
	shared bool // its locks are shared: all blocks are pure
}

// Draw draws a definition whose runs end as their jobs' outcomes say, so that an
// oracle can tell how.
func Draw(choose Choose) *Definition {
	w := drawing{Choose: choose}
	d := &Definition{Tolerance: one(choose, "tolerance", 0, 0, 1)}
	d.Config = append(d.Config, fmt.Sprintf("failureTolerance: %d", d.Tolerance))
	w.window(d)
	d.Steps = w.tree(0)
	return d
}

// DrawAny draws any definition. It may refer to the others.
func DrawAny(choose Choose, others []string) *Definition {
	w := drawing{Choose: choose, others: others, rich: choose.rarely("rich", 2)}
	d := &Definition{Tolerance: one(choose, "tolerance", 0, 0, 1), Open: w.rich}
	if d.Tolerance > 0 {
		d.Config = append(d.Config, fmt.Sprintf("failureTolerance: %d", d.Tolerance))
	}
	w.window(d)
	if w.rich {
		w.config(d)
	}
	d.Steps = w.tree(0)
	return d
}

func (w *drawing) window(d *Definition) {
	if n := w.Choose("in flight", 4); n > 0 {
		d.Config = append(d.Config, fmt.Sprintf("maxInFlight: %d", n))
	}
	if w.rarely("parallel", 2) {
		d.Config = append(d.Config, "executionStrategy: {parallel: true}")
	}
}

// config draws what decides about more than jobs.
func (w *drawing) config(d *Definition) {
	field := func(f string) { d.Config = append(d.Config, f) }
	switch w.Choose("onLocked", 8) {
	case 7:
		field("onLocked: fail")
	case 6, 5:
		field("onLocked: skip")
	}
	if w.rarely("shared", 5) {
		w.shared = true
		field("lockMode: shared")
	}
	switch w.Choose("rollback", 6) {
	case 5:
		d.Never = true
		field("rollback: never")
	case 4:
		field("rollback: {onFailure: continue}")
	}
	if w.rarely("timeout", 6) {
		field(fmt.Sprintf("timeout: %ds", 20+w.Choose("of", 10)*60))
	}
	if w.rarely("startWhen", 5) {
		field(`startWhen: {condition: 'entity("device", "d000").ready == true', deadline: 10m}`)
	}
	switch w.Choose("acquire", 10) {
	case 9:
		d.Head = append(d.Head, "acquire: [{type: device, block: p/finder:1}]")
	case 8:
		d.Head = append(d.Head, "acquire: [{type: device, groups: [odd]}]")
	case 7:
		d.Head = append(d.Head, "acquire: [{type: device, query: 'entity.ready == true'}]")
	}
}

// tree draws a list of steps, some of which embed others.
func (w *drawing) tree(depth int) (steps []*Step) {
	for range 1 + w.Choose("steps", 4-depth) {
		s := &Step{Label: fmt.Sprintf("s%d", w.n), Survives: w.rarely("continue", 4)}
		w.n++
		if n := one(w.Choose, "repeat", 0, 0, 0, 2); n > 0 {
			s.field("repeat: {count: %d}", n)
		}
		if w.rarely("delay", 4) {
			s.field("delay: 7s")
		}
		switch {
		case depth < 2 && w.rarely("nested", 3):
			s.Nested = w.tree(depth + 1)
		case w.rich && len(w.others) > 0 && w.rarely("refers", 6):
			w.refer(s)
		default:
			w.call(s)
		}
		steps = append(steps, s)
	}
	return steps
}

// call makes the step one that calls a block.
func (w *drawing) call(s *Step) {
	s.Block = one(w.Choose, "block", "pure", "again", "again", "once", "once", "harmless", "forever")
	if w.shared {
		s.Block = "pure"
	}
	on := one(w.Choose, "on", "device", "device", "global")
	s.field("runOn: %s", on)
	if on == "device" && w.rarely("condition", 3) {
		s.field("condition: %s", one(w.Choose, "of whom", `'entity.id < "d003"'`, `'entity.id < "d001"'`, `'entity.id > "d001"'`))
	}
	if n := one(w.Choose, "retries", 0, 0, 1, 3); n > 0 {
		s.field("retry: {maxRetries: %d, delay: %s%s}", n, one(w.Choose, "pause", "5s", "5s", "40s"), one(w.Choose, "when", "", ", when: error.retryable"))
	}
	if !w.rich {
		return
	}
	if w.rarely("stepTimeout", 10) {
		s.field("stepTimeout: 45s")
	}
	if w.rarely("jobTimeout", 10) {
		s.field("timeout: 8s")
	}
	if on == "device" && w.rarely("parameters", 6) {
		s.field(`parameters: {name: "${entity.name}"}`)
	}
}

// refer makes the step one that refers to another definition.
func (w *drawing) refer(s *Step) {
	s.Other = one(w.Choose, "other", w.others...)
	mode := one(w.Choose, "mode", "dispatch", "dispatch", "fireAndForget", "embed")
	on := ""
	if mode != "embed" {
		on = fmt.Sprintf(", executeOnParameters: {ids: [d%03d]}", w.Choose("device", 4))
	}
	s.field("workflowReference: {workflow: p/%s, mode: %s%s}", s.Other, mode, on)
}

func (s *Step) field(format string, args ...any) {
	s.Fields = append(s.Fields, fmt.Sprintf(format, args...))
}
