package defgen

import "fmt"

// Choose returns a random number in [0, n). what names the choice.
type Choose func(what string, n int) int

// oneIn is true with probability 1/n, and false for the smallest choice.
func (c Choose) oneIn(what string, n int) bool { return c(what, n) == n-1 }

func pick[T any](c Choose, what string, of ...T) T { return of[c(what, len(of))] }

// generator is the state of generating one definition.
type generator struct {
	Choose
	stepCount   int      // number of steps so far
	references  []string // definitions that it may reference
	allFeatures bool
	sharedLocks bool // lockMode: shared, so all blocks are pure
}

// Generate generates a definition whose executions end as the outcomes of their jobs imply.
func Generate(choose Choose) *Definition {
	w := generator{Choose: choose}
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
	if w.oneIn("parallel", 2) {
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
	if w.oneIn("timeout", 6) {
		field(fmt.Sprintf("timeout: %ds", 20+w.Choose("of", 10)*60))
	}
	if w.oneIn("startWhen", 5) {
		field(`startWhen: {condition: 'entity("device", "d000").ready == true', deadline: 10m}`)
	}
	switch w.Choose("acquire", 10) {
	case 9:
		d.HeadLines = append(d.HeadLines, "acquire: [{type: device, block: p/finder:1}]")
	case 8:
		d.HeadLines = append(d.HeadLines, "acquire: [{type: device, groups: [odd]}]")
	case 7:
		d.HeadLines = append(d.HeadLines, "acquire: [{type: device, query: 'entity.ready == true'}]")
	}
}

// steps generates a list of steps, some of which contain others.
func (w *generator) steps(depth int) (steps []*Step) {
	for range 1 + w.Choose("steps", 4-depth) {
		s := &Step{Label: fmt.Sprintf("s%d", w.stepCount), ContinueOnError: w.oneIn("continue", 4)}
		w.stepCount++
		if n := pick(w.Choose, "repeat", 0, 0, 0, 2); n > 0 {
			s.addField("repeat: {count: %d}", n)
		}
		if w.oneIn("delay", 4) {
			s.addField("delay: 7s")
		}
		switch {
		case depth < 2 && w.oneIn("nested", 3):
			s.Nested = w.steps(depth + 1)
		case w.allFeatures && len(w.references) > 0 && w.oneIn("refers", 6):
			w.addReference(s)
		default:
			w.addBlockCall(s)
		}
		steps = append(steps, s)
	}
	return steps
}

// addBlockCall makes the step call a block.
func (w *generator) addBlockCall(s *Step) {
	s.Block = pick(w.Choose, "block", "pure", "again", "again", "once", "once", "harmless", "forever")
	if w.sharedLocks {
		s.Block = "pure"
	}
	on := pick(w.Choose, "on", "device", "device", "global")
	s.addField("runOn: %s", on)
	if on == "device" && w.oneIn("condition", 3) {
		s.addField("condition: %s", pick(w.Choose, "of whom", `'entity.id < "d003"'`, `'entity.id < "d001"'`, `'entity.id > "d001"'`))
	}
	if n := pick(w.Choose, "retries", 0, 0, 1, 3); n > 0 {
		s.addField("retry: {maxRetries: %d, delay: %s%s}", n, pick(w.Choose, "pause", "5s", "5s", "40s"), pick(w.Choose, "when", "", ", when: error.retryable"))
	}
	if !w.allFeatures {
		return
	}
	if w.oneIn("stepTimeout", 10) {
		s.addField("stepTimeout: 45s")
	}
	if w.oneIn("jobTimeout", 10) {
		s.addField("timeout: 8s")
	}
	if on == "device" && w.oneIn("parameters", 6) {
		s.addField(`parameters: {name: "${entity.name}"}`)
	}
}

// addReference makes the step reference another definition.
func (w *generator) addReference(s *Step) {
	s.Reference = pick(w.Choose, "other", w.references...)
	mode := pick(w.Choose, "mode", "dispatch", "dispatch", "fireAndForget", "embed")
	on := ""
	if mode != "embed" {
		on = fmt.Sprintf(", executeOnParameters: {ids: [d%03d]}", w.Choose("device", 4))
	}
	s.addField("workflowReference: {workflow: p/%s, mode: %s%s}", s.Reference, mode, on)
}

func (s *Step) addField(format string, args ...any) {
	s.Fields = append(s.Fields, fmt.Sprintf(format, args...))
}
