package simulator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
)

// faultProfile is how often each fault happens. The zero value has none.
type faultProfile struct {
	FaultOneIn        int           // one call in so many has a fault; 0 none
	PauseOneIn        int           // one call in so many is made after a long pause; 0 none
	MaxLatency        time.Duration // longest duration of a call, pauses excluded
	MaxBlockTime      time.Duration // longest duration of a block's call, long blocks excluded
	MaxSkew           time.Duration // how far a clock may be wrong, in both directions
	FaultsUntil       time.Duration // no faults after this time
	FaultsAgainFrom   time.Duration // and again for as long from this time on; 0 never
	QueueFaults       sim.QueueFaults
	BlockFailOneIn    int  // one block call in so many fails; 0 none
	RetryableOneIn    int  // one of these failures in so many is retryable
	BlockCrashOneIn   int  // the worker crashes during one block call in so many; 0 none
	LongBlockOneIn    int  // one block call in so many takes very long; 0 none
	SetAttributeOneIn int  // one block call in so many sets an attribute; 0 none
	LoseMessageOneIn  int  // one message in so many whose worker crashed becomes a dead letter; 0 none
	LeaseRaces        bool // blocks take about as long as their leases, and writers of packs pause
	CancelRollbacks   bool // operators cancel executions during their rollback
	RollingDeploy     bool // a newer release replaces the present one
	SweeperEnabled    bool // the sweeper runs; without it messages alone must suffice
}

// duplicatesOnlyProfile has messages that arrive twice and in any order, but no crashes and no
// losses: it needs no sweeper.
func duplicatesOnlyProfile(r *rand.Rand) faultProfile {
	m := faultProfile{
		MaxLatency: randomLatency(r), MaxBlockTime: time.Duration(pick(r, 4, 4, 20)) * time.Second, FaultsUntil: 24 * time.Hour, QueueFaults: sim.QueueFaults{Shuffle: true, DuplicateOneIn: r.IntN(4)},
		BlockFailOneIn: pick(r, 0, 0, 6), RetryableOneIn: 2, SetAttributeOneIn: pick(r, 0, 3),
	}
	return m
}

// randomFaultProfile generates a profile.
func randomFaultProfile(r *rand.Rand) faultProfile {
	if r.IntN(6) == 0 {
		return duplicatesOnlyProfile(r)
	}
	return faultProfile{
		FaultOneIn: pick(r, 0, 100, 40, 15, 8), PauseOneIn: pick(r, 0, 0, 150, 50, 20), MaxLatency: randomLatency(r), MaxBlockTime: 4 * time.Second,
		MaxSkew: time.Duration(pick(r, 0, 0, 1000)) * time.Millisecond, FaultsUntil: time.Duration(2+r.IntN(12)) * time.Minute,
		QueueFaults:    sim.QueueFaults{Shuffle: r.IntN(3) > 0, DuplicateOneIn: pick(r, 0, 0, 2, 3, 6), LoseOneIn: pick(r, 0, 0, 0, 8)},
		BlockFailOneIn: pick(r, 0, 0, 20, 8, 3), RetryableOneIn: 1 + r.IntN(2), BlockCrashOneIn: pick(r, 0, 0, 0, 12, 5), LongBlockOneIn: pick(r, 0, 0, 0, 10),
		SetAttributeOneIn: pick(r, 0, 3, 2), RollingDeploy: r.IntN(5) == 0, SweeperEnabled: true,
		LoseMessageOneIn: pick(r, 0, 0, 2), LeaseRaces: r.IntN(5) == 0, CancelRollbacks: r.IntN(3) == 0,
	}
}

func randomLatency(r *rand.Rand) time.Duration {
	return time.Duration(pick(r, 10, 100, 100, 1000)) * time.Millisecond
}

func pick(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }

// faultPlan decides about faults and delays of each call, in the order of the calls.
type faultPlan struct {
	profile     faultProfile
	faultRand   *rand.Rand // for faults
	timeRand    *rand.Rand // for times
	elapsed     func() time.Duration
	allowed     func(n int) bool // whether a fault may be injected, by its number
	injected    []InjectedFault
	drawnFaults int
}

// InjectedFault is a fault that was injected.
type InjectedFault struct {
	Number int // the same in every repetition up to the first difference
	Fault  string
	Call   string
}

// newFaultPlan makes the fault plan of a simulation. elapsed is the simulated time since its
// start; allowed, unless it is nil, forbids faults by their number.
func newFaultPlan(seed uint64, m faultProfile, elapsed func() time.Duration, allowed func(n int) bool) *faultPlan {
	return &faultPlan{
		profile: m, faultRand: rand.New(rand.NewPCG(seed, 11)), timeRand: rand.New(rand.NewPCG(seed, 12)),
		elapsed: elapsed, allowed: allowed,
	}
}

// injectedFaults returns the faults so far.
func (l *faultPlan) injectedFaults() []InjectedFault { return l.injected }

// ended reports whether no more faults are injected.
func (l *faultPlan) ended() bool {
	since := l.elapsed()
	if from := l.profile.FaultsAgainFrom; from > 0 && since > from {
		since -= from
	}
	return since > l.profile.FaultsUntil
}

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

// callFaults are the faults that any call may have. In addition, weakly consistent reads and index
// reads may be stale, and batches of messages incomplete.
var callFaults = []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated}

// faultFor returns the fault of a call.
func (l *faultPlan) faultFor(c faults.Call) faults.Fault {
	if c.Name == "block.run" && l.oneIn(l.profile.BlockCrashOneIn) {
		l.record("crash in the middle", c.String())
		return faults.CrashBefore
	}
	if !l.oneIn(l.profile.FaultOneIn) {
		return faults.None
	}
	f := callFaults[l.faultRand.IntN(len(callFaults))]
	switch {
	case strings.HasPrefix(c.Name, "block."):
		f = faults.CrashBefore
	case c.Name == "store.due_executions" || c.Name == "store.list_by_state" || c.Name == "store.list_unlisted" || strings.HasSuffix(c.Name, "_weakly"):
		if l.faultRand.IntN(2) == 0 {
			f = faults.Stale
		}
	case c.Name == "sender.send_packs" && l.faultRand.IntN(3) == 0:
		f = faults.PartialBatch
	}
	l.record(f.String(), c.String())
	return f
}

// leaseSensitiveCalls are writes of packs that depend on an earlier read: the lease may end or be
// renewed in between.
var leaseSensitiveCalls = map[string]bool{
	"packs.take_over": true, "packs.extend": true, "packs.finish": true, "packs.force_cancel": true,
	"packs.put_cancelled": true, "packs.request_cancel": true, "packs.add_done": true,
}

// losesMessage reports whether the message of a worker that crashed becomes a dead letter.
func (l *faultPlan) losesMessage(what string) bool {
	if !l.oneIn(l.profile.LoseMessageOneIn) {
		return false
	}
	l.record("dead letter", what)
	return true
}

// delayBefore returns how long a process pauses before a call.
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
		return l.durationBelow(l.profile.MaxBlockTime)
	case l.profile.LeaseRaces && leaseSensitiveCalls[call] && l.oneIn(3):
		d := l.durationBelow(40 * time.Second)
		l.record(fmt.Sprintf("short pause of %s", d.Round(time.Millisecond)), call)
		return d
	case l.oneIn(l.profile.PauseOneIn):
		d := l.durationBelow(4 * time.Minute)
		if l.faultRand.IntN(2) == 0 {
			d = l.durationBelow(20 * time.Second)
		}
		l.record(fmt.Sprintf("pause of %s", d.Round(time.Millisecond)), call)
		return d
	}
	return l.durationBelow(l.profile.MaxLatency)
}

// clockSkew returns how wrong the clock of a new process is.
func (l *faultPlan) clockSkew() time.Duration {
	if l.profile.MaxSkew == 0 {
		return 0
	}
	return l.durationBelow(2*l.profile.MaxSkew) - l.profile.MaxSkew
}

// durationBelow returns a random duration below d, in whole milliseconds.
func (l *faultPlan) durationBelow(d time.Duration) time.Duration {
	return time.Duration(l.timeRand.Int64N(max(1, d.Milliseconds()))) * time.Millisecond
}

// intN returns a random number in [0, n).
func (l *faultPlan) intN(n int) int { return l.timeRand.IntN(n) }
