package defgen

import (
	"fmt"
	"time"
)

// Choose returns a random number in [0, n). what names the choice.
type Choose func(what string, n int) int

// oneIn is true with probability 1/n, and false for the smallest choice.
func (c Choose) oneIn(what string, n int) bool { return c(what, n) == n-1 }

func pick[T any](c Choose, what string, of ...T) T { return of[c(what, len(of))] }

// generator is the state of generating one definition.
type generator struct {
	Choose
	stepCount   int            // number of steps so far
	blocks      []earlierBlock // steps so far that call blocks
	references  []string       // definitions that it may reference
	allFeatures bool
	sharedLocks bool // lockMode: shared, so all blocks are pure
	items       bool // some steps have a job for each item of a list
}

// Generate generates a definition whose executions end as the outcomes of their jobs imply.
func Generate(choose Choose) *Definition {
	w := generator{Choose: choose, items: true}
	d := &Definition{FailureTolerance: pick(choose, "tolerance", 0, 0, 1)}
	d.ConfigFields = append(d.ConfigFields, fmt.Sprintf("failureTolerance: %d", d.FailureTolerance))
	w.addConcurrency(d)
	d.Steps = w.steps(0)
	return d
}

// GenerateAny generates any definition. It may reference others.
func GenerateAny(choose Choose, references []string) *Definition {
	w := generator{Choose: choose, references: references, allFeatures: choose.oneIn("rich", 2)}
	d := &Definition{FailureTolerance: pick(choose, "tolerance", 0, 0, 1), Unpredictable: w.allFeatures}
	if d.FailureTolerance > 0 {
		d.ConfigFields = append(d.ConfigFields, fmt.Sprintf("failureTolerance: %d", d.FailureTolerance))
	}
	w.addConcurrency(d)
	if w.allFeatures {
		w.addConfig(d)
	}
	d.Steps = w.steps(0)
	return d
}

func (w *generator) addConcurrency(d *Definition) {
	if n := w.Choose("in flight", 4); n > 0 {
		d.ConfigFields = append(d.ConfigFields, fmt.Sprintf("maxInFlight: %d", n))
	}
	if d.Parallel = w.oneIn("parallel", 2); d.Parallel {
		d.ConfigFields = append(d.ConfigFields, "executionStrategy: {parallel: true}")
	}
}

// addConfig adds configuration that affects more than jobs.
func (w *generator) addConfig(d *Definition) {
	field := func(f string) { d.ConfigFields = append(d.ConfigFields, f) }
	switch w.Choose("onLocked", 8) {
	case 7:
		field("onLocked: fail")
	case 6, 5:
		d.SkipsLocked = true
		field("onLocked: skip")
	}
	if w.oneIn("shared", 5) {
		w.sharedLocks = true
		field("lockMode: shared")
	}
	switch w.Choose("rollback", 6) {
	case 5:
		d.NeverRollback = true
		field("rollback: never")
	case 4:
		field("rollback: {onFailure: continue}")
	}
	if w.oneIn("leave", 6) {
		d.LeavesFailed = true
		field("onEntityFailure: leave")
	}
	if w.oneIn("timeout", 6) {
		field(fmt.Sprintf("timeout: %ds", 20+w.Choose("of", 10)*60))
	}
	if w.oneIn("startWhen", 5) {
		field(`startWhen: {condition: 'entity("device", "d000").ready == true', deadline: 10m}`)
	}
	switch w.Choose("acquire", 10) {
	case 9:
		d.Acquire = &Acquisition{Text: "{type: device, block: p/finder:1}", Block: true}
	case 8:
		d.Acquire = &Acquisition{Text: "{type: device, groups: [odd]}", Group: "odd"}
	case 7:
		ready := compare(attribute("ready"), "==", true)
		d.Acquire = &Acquisition{Text: "{type: device, query: " + quote(ready.Text) + "}", Select: ready}
	}
}

// steps generates a list of steps, some of which contain others.
func (w *generator) steps(depth int) (steps []*Step) {
	for range 1 + w.Choose("steps", 4-depth) {
		s := &Step{Label: fmt.Sprintf("s%d", w.stepCount), ContinueOnError: w.oneIn("continue", 4)}
		w.stepCount++
		if n := pick(w.Choose, "repeat", 0, 0, 0, 2); n > 0 {
			s.Repeat = &Repeat{Count: n, Delay: pick(w.Choose, "repeat delay", 0, 0, 11*time.Second)}
		}
		if w.oneIn("delay", 4) {
			s.Delay = pick(w.Choose, "for", 7*time.Second, 7*time.Second, 45*time.Second) // the last is longer than a message stays hidden
		}
		for _, k := range kinds() {
			if s.Body = k.draw(w, s, depth); s.Body != nil {
				break
			}
		}
		steps = append(steps, s)
	}
	return steps
}

func (r *Repeat) text() string {
	text := fmt.Sprintf("{count: %d", r.Count)
	if r.While != nil {
		text += ", while: " + quote(r.While.Text)
	}
	if r.Delay > 0 {
		text += ", delay: " + r.Delay.String()
	}
	return text + "}"
}

func (s *Step) addField(format string, args ...any) {
	s.Fields = append(s.Fields, fmt.Sprintf(format, args...))
}
