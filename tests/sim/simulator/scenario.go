package simulator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// deviceCount is how many devices there are.
const deviceCount = 5

// scenario is what happens in the world of one seed.
type scenario struct {
	Seed         uint64
	FaultProfile faultProfile
	Actions      []action // in order of time
	// RestoreDrill is a restore of the tables to what they were before; nil in most plays.
	RestoreDrill *restoreDrill
}

// restoreDrill is a disaster, and what is done about it by docs/runbooks/restore.md.
type restoreDrill struct {
	At           time.Duration    // when the tables are set back
	RestoreTo    [4]time.Duration // to what moment each of them: within a second
	KeepMessages bool             // the queues keep their messages, which ought to be purged
	LateWorkers  bool             // workers that have begun a pack cannot be stopped, and go on
}

// newScenario draws the play of a seed.
func newScenario(seed uint64) scenario {
	r := rand.New(rand.NewPCG(seed, 5))
	p := scenario{Seed: seed, FaultProfile: randomFaultProfile(r)}
	names := make([]string, 1+r.IntN(3))
	for i := range names {
		names[i] = definitionName(r.IntN(definitionsPerCorpus))
	}
	busy := time.Duration(1+r.IntN(4)) * time.Minute // most of it happens within
	within := func(d time.Duration) time.Duration {
		if r.IntN(3) == 0 {
			return time.Duration(r.IntN(200)) * time.Millisecond // all at once
		}
		return time.Duration(r.Int64N(d.Milliseconds())) * time.Millisecond
	}
	add := func(a action) { p.Actions = append(p.Actions, a) }
	devices := 1 + r.IntN(deviceCount)
	executions := 1 + r.IntN(4)
	for range executions {
		a := action{At: within(busy), Kind: actionStart, Definition: names[r.IntN(len(names))], Devices: adjacentDevices(r, devices)}
		if r.IntN(5) == 0 {
			a.Kind = actionStartTwice
		}
		if r.IntN(8) == 0 {
			a.StartDelay = time.Duration(1+r.IntN(90)) * time.Second
		}
		add(a)
	}
	verbs := []actionKind{actionCancel, actionCancel, actionCancel, actionRetry, actionRetry, actionResume, actionUnlock, actionAcknowledge, actionImport, actionImport, actionStrayWakeup, actionStrayWakeup}
	if p.FaultProfile.SweeperEnabled {
		verbs = append(verbs, actionKillWorker, actionSweep)
	}
	for range r.IntN(6) {
		a := action{At: within(2 * busy), Kind: verbs[r.IntN(len(verbs))], ExecutionIndex: r.IntN(executions), Choice: r.IntN(12)}
		if a.Kind == actionImport {
			a.Devices = []string{deviceID(r.IntN(devices))}
		}
		add(a)
	}
	if p.FaultProfile.SweeperEnabled && r.IntN(12) == 0 {
		name := names[r.IntN(len(names))]
		add(action{At: within(busy), Kind: actionSchedule, Definition: name, Devices: adjacentDevices(r, devices), Choice: r.IntN(2)})
		add(action{At: busy + 5*time.Minute, Kind: actionUnschedule, Definition: name})
	}
	if p.FaultProfile.SweeperEnabled && r.IntN(10) == 0 {
		to := within(busy)
		d := &restoreDrill{At: to + time.Second + time.Duration(r.Int64N(int64(4*time.Minute))).Truncate(time.Millisecond), KeepMessages: r.IntN(2) == 0, LateWorkers: r.IntN(2) == 0}
		for i := range d.RestoreTo {
			d.RestoreTo[i] = to + time.Duration(r.IntN(1000))*time.Millisecond
		}
		if r.IntN(3) == 0 { // to the very same moment
			d.RestoreTo = [4]time.Duration{to, to, to, to}
		}
		p.RestoreDrill = d
	}
	slices.SortStableFunc(p.Actions, func(a, b action) int { return int(a.At - b.At) })
	for i := range p.Actions {
		p.Actions[i].Number = i + 1
	}
	return p
}

// adjacentDevices are a few devices that lie side by side, in any order.
func adjacentDevices(r *rand.Rand, devices int) (ids []string) {
	from := r.IntN(devices)
	for i := range 1 + r.IntN(devices-from) {
		ids = append(ids, deviceID(from+i))
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func deviceID(i int) string { return fmt.Sprintf("d%03d", i) }
