package simulator

import (
	"fmt"

	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// withPrefix puts time and process before what is told.
func (w *simulation) withPrefix(write func(format string, args ...any)) func(string, ...any) {
	return func(format string, args ...any) {
		who := ""
		if w.current != nil {
			who = w.current.name
		}
		at := w.checker.Now.Sub(w.startedAt)
		write("%9.3fs %-14s %s", at.Seconds(), who, fmt.Sprintf(format, args...))
	}
}

// traceCall tells a call by its number, with what becomes of it.
func (w *simulation) traceCall(c faults.Call, f faults.Fault) {
	if f == faults.None {
		w.trace("%d %s", c.Number, c.Name)
		return
	}
	w.trace("%d %s  <- FAULT: %s", c.Number, c.Name, f)
}

// traceSpawn tells what is unusual about a process.
func (w *simulation) traceSpawn(p *process) {
	if p.clockSkew != 0 {
		w.trace("%s begins, its clock %s off", p.name, p.clockSkew)
	}
	if p.programVersion != currentVersion {
		w.trace("%s begins, of release %d", p.name, p.programVersion)
	}
}

// traceDelays tells of the faults since the one so many: of delays, that is, for
// what befalls a call is told with it.
func (w *simulation) traceDelays(p *process, since int) {
	for _, s := range w.faultPlan.injectedFaults()[since:] {
		w.trace("%s  <- FAULT: %s before %s", p.name, s.Fault, s.Call)
	}
}

// Trace plays a seed and tells of it, line by line.
func Trace(seed uint64, cut Cut, line func(string)) Result {
	t := New(corpusFor(seed))
	writef := func(format string, args ...any) { line(fmt.Sprintf(format, args...)) }
	first := true
	return t.Run(seed, cut, func(format string, args ...any) {
		if first {
			first = false
			line(fmt.Sprintf("seed %d, a world of %+v\n", seed, newScenario(seed).FaultProfile))
			for _, name := range t.publishedNames() {
				writef("definition %s:\n%s", name, t.corpus.definition(name).YAML())
			}
		}
		writef(format, args...)
	})
}
