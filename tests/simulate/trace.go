package simulate

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// telling puts time and process before what is told.
func (w *world) telling(tell func(format string, args ...any)) func(string, ...any) {
	return func(format string, args ...any) {
		who := ""
		if w.current != nil {
			who = w.current.name
		}
		at := w.watch.At.Sub(w.begin)
		tell("%9.3fs %-14s %s", at.Seconds(), who, fmt.Sprintf(format, args...))
	}
}

// tellCall tells a call by its number, with what becomes of it.
func (w *world) tellCall(c fate.Call, f fate.Fault) {
	if f == fate.None {
		w.tell("%d %s", c.N, c.Name)
		return
	}
	w.tell("%d %s  <- FAULT: %s", c.N, c.Name, f)
}

// tellSpawned tells what is unusual about a process.
func (w *world) tellSpawned(p *process) {
	if p.skew != 0 {
		w.tell("%s begins, its clock %s off", p.name, p.skew)
	}
	if p.release != present {
		w.tell("%s begins, of release %d", p.name, p.release)
	}
}

// tellStruck tells of the faults since the one so many: of delays, that is, for
// what befalls a call is told with it.
func (w *world) tellStruck(p *process, since int) {
	for _, s := range w.luck.Struck()[since:] {
		w.tell("%s  <- FAULT: %s before %s", p.name, s.Fault, s.Call)
	}
}

// Tell plays a seed and tells of it, line by line.
func Tell(seed uint64, cut Cut, line func(string)) Result {
	t := NewTheatre(companyFor(seed))
	tell := func(format string, args ...any) { line(fmt.Sprintf(format, args...)) }
	first := true
	return t.Play(seed, cut, func(format string, args ...any) {
		if first {
			first = false
			line(fmt.Sprintf("seed %d, a world of %+v\n", seed, workload.Draw(seed).Mood))
			for _, name := range t.names() {
				tell("definition %s:\n%s", name, t.company.Definition(name).Text())
			}
		}
		tell(format, args...)
	})
}
