package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Call is one call of a port.
type Call struct {
	Number int    // the how manieth of its world, from 1
	Name   string // "store.commit"
	Task   string // of the task that makes it, if it is one
}

func (c Call) String() string {
	if c.Task == "" {
		return fmt.Sprintf("%d %s", c.Number, c.Name)
	}
	return fmt.Sprintf("%d %s of %s", c.Number, c.Name, c.Task)
}

// Fault is what becomes of a call.
type Fault int

// The faults. Stale concerns reads of an index only, and Partly batches of
// messages.
const (
	None         Fault = iota
	CrashBefore        // whoever calls dies; nothing has happened
	CrashAfter         // it happens, and then whoever called dies
	LostReply          // it happens, and the caller gets CodeUnavailable
	Throttled          // nothing happens, and the caller gets CodeUnavailable
	Repeated           // the reply is lost on its way, and the client asks again
	Stale              // the index answers as it stood before the last change
	PartialBatch       // half of the batch is left undone, and the caller is told which
	Broken             // nothing happens, and the caller gets an error that no code classifies
)

var faultNames = [...]string{"none", "crash before", "crash after", "lost reply", "throttled", "repeated", "stale", "partly done", "broken"}

func (f Fault) String() string { return faultNames[f] }

// Plan decides what becomes of each call.
type Plan func(Call) Fault

// At plans one fault, for the nth call from now on that the plan sees.
func At(n int, f Fault) Plan {
	return func(Call) Fault {
		if n--; n == 0 {
			return f
		}
		return None
	}
}

// Next plans one fault, for the next call whose name begins so.
func Next(name string, f Fault) Plan {
	armed := true
	return func(c Call) Fault {
		if armed && strings.HasPrefix(c.Name, name) {
			armed = false
			return f
		}
		return None
	}
}

// Randomly plans faults of all kinds given, each with the same chance: one call
// in so many has one.
func Randomly(r *rand.Rand, in int, kinds ...Fault) Plan {
	return func(Call) Fault {
		if r.IntN(in) > 0 {
			return None
		}
		return kinds[r.IntN(len(kinds))]
	}
}

// Crash is what a dying caller panics with. Survive recovers it.
type Crash struct{ Call Call }

func (c Crash) Error() string { return "simulated: died at call " + c.Call.String() }

// CatchCrash runs a piece of work and reports whether it died of a planned crash.
// Other panics go on.
func CatchCrash(work func()) (crashed bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case Crash:
			crashed = true
		default:
			panic(r)
		}
	}()
	work()
	return false
}
