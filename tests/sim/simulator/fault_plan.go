package simulator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// faultPlan decides about each call of a play, in the order in which calls are made.
type faultPlan struct {
	profile     faultProfile
	faultRand   *rand.Rand // of faults
	timeRand    *rand.Rand // of times
	elapsed     func() time.Duration
	allowed     func(n int) bool // whether a fault may strike, by its number
	injected    []InjectedFault
	drawnFaults int
}

// InjectedFault is a fault that has struck.
type InjectedFault struct {
	Number int // its number: the same in every repetition up to the first difference
	Fault  string
	Call   string
}

// newFaultPlan makes the luck of a play. elapsed is how long the play goes on already;
// allowed, unless it is nil, forbids faults by their number.
func newFaultPlan(seed uint64, m faultProfile, elapsed func() time.Duration, allowed func(n int) bool) *faultPlan {
	return &faultPlan{
		profile: m, faultRand: rand.New(rand.NewPCG(seed, 11)), timeRand: rand.New(rand.NewPCG(seed, 12)),
		elapsed: elapsed, allowed: allowed,
	}
}

// injectedFaults are the faults so far.
func (l *faultPlan) injectedFaults() []InjectedFault { return l.injected }

// ended reports whether nothing goes wrong any more.
func (l *faultPlan) ended() bool { return l.elapsed() > l.profile.FaultsUntil }

func (l *faultPlan) oneIn(n int) bool {
	if n == 0 || l.ended() || l.faultRand.IntN(n) > 0 {
		return false
	}
	l.drawnFaults++
	return l.allowed == nil || l.allowed(l.drawnFaults)
}

func (l *faultPlan) record(fault, call string) {
	l.injected = append(l.injected, InjectedFault{l.drawnFaults, fault, call})
}

// callFaults are the faults of any call; reads of an index may be stale besides, and
// of a batch of messages some may stay behind.
var callFaults = []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated}

// faultFor is what becomes of a call.
func (l *faultPlan) faultFor(c faults.Call) faults.Fault {
	if c.Name == "block.run" && l.oneIn(l.profile.BlockCrashOneIn) {
		l.record("dies in the middle", c.String())
		return faults.CrashBefore
	}
	if !l.oneIn(l.profile.FaultOneIn) {
		return faults.None
	}
	f := callFaults[l.faultRand.IntN(len(callFaults))]
	switch {
	case strings.HasPrefix(c.Name, "block."):
		f = faults.CrashBefore
	case c.Name == "store.due_executions" || c.Name == "store.list_by_state":
		if l.faultRand.IntN(2) == 0 {
			f = faults.Stale
		}
	case c.Name == "sender.send_packs" && l.faultRand.IntN(3) == 0:
		f = faults.PartialBatch
	}
	l.record(f.String(), c.String())
	return f
}

// leaseSensitiveCalls are the writes between whose reading and writing a lease may end, or
// begin anew.
var leaseSensitiveCalls = map[string]bool{
	"packs.take_over": true, "packs.extend": true, "packs.finish": true, "packs.force_cancel": true,
	"packs.put_cancelled": true, "packs.request_cancel": true, "packs.add_done": true,
}

// losesMessage reports whether the message of a worker that has died is gone with it.
func (l *faultPlan) losesMessage(what string) bool {
	if !l.oneIn(l.profile.LoseMessageOneIn) {
		return false
	}
	l.record("is put aside for good", what)
	return true
}

// delayBefore is how long whoever makes a call stands before it.
func (l *faultPlan) delayBefore(call string) time.Duration {
	switch {
	case call == "block.enter":
		return l.durationBelow(500 * time.Millisecond)
	case call == "block.run":
		if l.profile.LongBlockOneIn > 0 && l.oneIn(l.profile.LongBlockOneIn) {
			d := 20*time.Second + l.durationBelow(2*time.Minute)
			l.record(fmt.Sprintf("takes %s", d.Round(time.Second)), call)
			return d
		}
		if l.profile.LeaseRaces && l.oneIn(2) {
			d := 15*time.Second + l.durationBelow(time.Minute)
			if l.faultRand.IntN(2) == 0 {
				d = 58*time.Second + l.durationBelow(12*time.Second)
			}
			l.record(fmt.Sprintf("takes %s", d.Round(time.Second)), call)
			return d
		}
		return l.durationBelow(4 * time.Second)
	case l.profile.LeaseRaces && leaseSensitiveCalls[call] && l.oneIn(3):
		d := l.durationBelow(40 * time.Second)
		l.record(fmt.Sprintf("hesitates for %s", d.Round(time.Millisecond)), call)
		return d
	case l.oneIn(l.profile.PauseOneIn):
		d := l.durationBelow(4 * time.Minute)
		if l.faultRand.IntN(2) == 0 {
			d = l.durationBelow(20 * time.Second)
		}
		l.record(fmt.Sprintf("stands still for %s", d.Round(time.Millisecond)), call)
		return d
	}
	return l.durationBelow(l.profile.MaxLatency)
}

// clockSkew is how far off the clock of a new process is.
func (l *faultPlan) clockSkew() time.Duration {
	if l.profile.MaxSkew == 0 {
		return 0
	}
	return l.durationBelow(2*l.profile.MaxSkew) - l.profile.MaxSkew
}

// durationBelow is a time below d, in whole milliseconds.
func (l *faultPlan) durationBelow(d time.Duration) time.Duration {
	return time.Duration(l.timeRand.Int64N(max(1, d.Milliseconds()))) * time.Millisecond
}

// intN is a number from 0 up to below n.
func (l *faultPlan) intN(n int) int { return l.timeRand.IntN(n) }
