package simulate

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
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

// tellCall tells a call, with what becomes of it.
func (w *world) tellCall(c fate.Call, f fate.Fault) {
	if f == fate.None {
		w.tell("%s", c.Name)
		return
	}
	w.tell("%s  <- %s", c.Name, f)
}

// Tell plays a seed and tells of it, line by line.
func Tell(seed uint64, cut Cut, line func(string)) Result {
	t := NewTheatre(companyFor(seed))
	tell := func(format string, args ...any) { line(fmt.Sprintf(format, args...)) }
	first := true
	return t.Play(seed, cut, func(format string, args ...any) {
		if first {
			first = false
			for _, name := range t.names() {
				tell("definition %s:\n%s", name, t.company.Definition(name).Text())
			}
		}
		tell(format, args...)
	})
}
