package trouble

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
)

// Luck decides about each call of a play, in the order in which calls are made.
type Luck struct {
	mood    Mood
	dice    *rand.Rand // of faults
	watch   *rand.Rand // of times
	elapsed func() time.Duration
	allowed func(n int) bool // whether a fault may strike, by its number
	struck  []Strike
	drawn   int
}

// Strike is a fault that has struck.
type Strike struct {
	N     int // its number: the same in every repetition up to the first difference
	Fault string
	Call  string
}

// NewLuck makes the luck of a play. elapsed is how long the play goes on already;
// allowed, unless it is nil, forbids faults by their number.
func NewLuck(seed uint64, m Mood, elapsed func() time.Duration, allowed func(n int) bool) *Luck {
	return &Luck{
		mood: m, dice: rand.New(rand.NewPCG(seed, 11)), watch: rand.New(rand.NewPCG(seed, 12)),
		elapsed: elapsed, allowed: allowed,
	}
}

// Struck are the faults so far.
func (l *Luck) Struck() []Strike { return l.struck }

// Over reports whether nothing goes wrong any more.
func (l *Luck) Over() bool { return l.elapsed() > l.mood.Until }

func (l *Luck) strikes(one int) bool {
	if one == 0 || l.Over() || l.dice.IntN(one) > 0 {
		return false
	}
	l.drawn++
	return l.allowed == nil || l.allowed(l.drawn)
}

func (l *Luck) note(fault, call string) {
	l.struck = append(l.struck, Strike{l.drawn, fault, call})
}

// ofCalls are the faults of any call; reads of an index may be stale besides, and
// of a batch of messages some may stay behind.
var ofCalls = []fate.Fault{fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated}

// Fault is what becomes of a call.
func (l *Luck) Fault(c fate.Call) fate.Fault {
	if c.Name == "block.run" && l.strikes(l.mood.Die) {
		l.note("dies in the middle", c.String())
		return fate.CrashBefore
	}
	if !l.strikes(l.mood.Faults) {
		return fate.None
	}
	f := ofCalls[l.dice.IntN(len(ofCalls))]
	switch {
	case strings.HasPrefix(c.Name, "block."):
		f = fate.CrashBefore
	case c.Name == "store.due" || c.Name == "store.listed":
		if l.dice.IntN(2) == 0 {
			f = fate.Stale
		}
	case c.Name == "board.offer" && l.dice.IntN(3) == 0:
		f = fate.Partly
	}
	l.note(f.String(), c.String())
	return f
}

// hesitant are the writes between whose reading and writing a lease may end, or
// begin anew.
var hesitant = map[string]bool{
	"packs.take_over": true, "packs.extend": true, "packs.finish": true, "packs.seize": true,
	"packs.tombstone": true, "packs.ask_cancel": true, "packs.add_done": true,
}

// Vanishes reports whether the message of a worker that has died is gone with it.
func (l *Luck) Vanishes(what string) bool {
	if !l.strikes(l.mood.Vanish) {
		return false
	}
	l.note("is put aside for good", what)
	return true
}

// Delay is how long whoever makes a call stands before it.
func (l *Luck) Delay(call string) time.Duration {
	switch {
	case call == "block.enter":
		return l.upTo(500 * time.Millisecond)
	case call == "block.run":
		if l.mood.Long > 0 && l.strikes(l.mood.Long) {
			d := 20*time.Second + l.upTo(2*time.Minute)
			l.note(fmt.Sprintf("takes %s", d.Round(time.Second)), call)
			return d
		}
		if l.mood.Brink && l.strikes(2) {
			d := 15*time.Second + l.upTo(time.Minute)
			if l.dice.IntN(2) == 0 {
				d = 58*time.Second + l.upTo(12*time.Second)
			}
			l.note(fmt.Sprintf("takes %s", d.Round(time.Second)), call)
			return d
		}
		return l.upTo(4 * time.Second)
	case l.mood.Brink && hesitant[call] && l.strikes(3):
		d := l.upTo(40 * time.Second)
		l.note(fmt.Sprintf("hesitates for %s", d.Round(time.Millisecond)), call)
		return d
	case l.strikes(l.mood.Pauses):
		d := l.upTo(4 * time.Minute)
		if l.dice.IntN(2) == 0 {
			d = l.upTo(20 * time.Second)
		}
		l.note(fmt.Sprintf("stands still for %s", d.Round(time.Millisecond)), call)
		return d
	}
	return l.upTo(l.mood.Slow)
}

// Skew is how far off the clock of a new process is.
func (l *Luck) Skew() time.Duration {
	if l.mood.Skew == 0 {
		return 0
	}
	return l.upTo(2*l.mood.Skew) - l.mood.Skew
}

// upTo is a time below d, in whole milliseconds.
func (l *Luck) upTo(d time.Duration) time.Duration {
	return time.Duration(l.watch.Int64N(max(1, d.Milliseconds()))) * time.Millisecond
}

// Draw is a number from 0 up to below n.
func (l *Luck) Draw(n int) int { return l.watch.IntN(n) }
