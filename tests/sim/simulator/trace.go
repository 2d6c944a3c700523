package simulator

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
)

// withPrefix puts time and process in front of each line.
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

// traceCall writes a call with its number and its fault.
func (w *simulation) traceCall(c faults.Call, f faults.Fault) {
	if f == faults.None {
		w.trace("%d %s", c.Number, c.Name)
		return
	}
	w.trace("%d %s  <- FAULT: %s", c.Number, c.Name, f)
}

// traceSpawn writes the clock skew and the version of a process if they are unusual.
func (w *simulation) traceSpawn(p *process) {
	if p.clockSkew != 0 {
		w.trace("%s starts with clock skew %s", p.name, p.clockSkew)
	}
	if p.programVersion != currentVersion {
		w.trace("%s starts with version %d", p.name, p.programVersion)
	}
}

// traceDelays writes the faults from number since on. These are delays; traceCall writes the
// others.
func (w *simulation) traceDelays(p *process, since int) {
	for _, s := range w.faultPlan.injectedFaults()[since:] {
		w.trace("%s  <- FAULT: %s before %s", p.name, s.Fault, s.Call)
	}
}

// Trace simulates a seed and calls line with each line of its trace.
func Trace(seed uint64, cut Cut, line func(string)) Result {
	t := New(newCorpus(seed))
	writef := func(format string, args ...any) { line(fmt.Sprintf(format, args...)) }
	first := true
	return t.Run(seed, cut, func(format string, args ...any) {
		if first {
			first = false
			line(fmt.Sprintf("seed %d, fault profile %+v\n", seed, newScenario(seed).FaultProfile))
			for _, name := range t.publishedNames() {
				writef("definition %s:\n%s", name, t.corpus.definition(name).YAML())
			}
		}
		writef(format, args...)
	})
}
