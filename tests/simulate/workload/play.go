package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/tests/simulate/trouble"
)

// Devices is how many devices there are.
const Devices = 5

// Play is what happens in the world of one seed.
type Play struct {
	Seed uint64
	Mood trouble.Mood
	Acts []Act // in order of time
	// Drill is a restore of the tables to what they were before; nil in most plays.
	Drill *Drill
}

// Drill is a disaster, and what is done about it by docs/runbooks/restore.md.
type Drill struct {
	At   time.Duration    // when the tables are set back
	To   [4]time.Duration // to what moment each of them: within a second
	Keep bool             // the queues keep their messages, which ought to be purged
	Late bool             // workers that have begun a pack cannot be stopped, and go on
}

// Draw draws the play of a seed.
func Draw(seed uint64) Play {
	r := rand.New(rand.NewPCG(seed, 5))
	p := Play{Seed: seed, Mood: trouble.Draw(r)}
	names := make([]string, 1+r.IntN(3))
	for i := range names {
		names[i] = nameOf(r.IntN(definitions))
	}
	busy := time.Duration(1+r.IntN(4)) * time.Minute // most of it happens within
	within := func(d time.Duration) time.Duration {
		if r.IntN(3) == 0 {
			return time.Duration(r.IntN(200)) * time.Millisecond // all at once
		}
		return time.Duration(r.Int64N(d.Milliseconds())) * time.Millisecond
	}
	add := func(a Act) { p.Acts = append(p.Acts, a) }
	devices := 1 + r.IntN(Devices)
	runs := 1 + r.IntN(4)
	for range runs {
		a := Act{At: within(busy), Kind: Start, Definition: names[r.IntN(len(names))], Devices: some(r, devices)}
		if r.IntN(5) == 0 {
			a.Kind = Twice
		}
		if r.IntN(8) == 0 {
			a.Later = time.Duration(1+r.IntN(90)) * time.Second
		}
		add(a)
	}
	verbs := []Kind{Cancel, Cancel, Cancel, Retry, Retry, Resume, Unlock, Acknowledge, Import, Import, Stray, Stray}
	if p.Mood.Alarms {
		verbs = append(verbs, Kill, Sweep)
	}
	for range r.IntN(6) {
		a := Act{At: within(2 * busy), Kind: verbs[r.IntN(len(verbs))], Run: r.IntN(runs), Choice: r.IntN(12)}
		if a.Kind == Import {
			a.Devices = []string{deviceName(r.IntN(devices))}
		}
		add(a)
	}
	if p.Mood.Alarms && r.IntN(12) == 0 {
		name := names[r.IntN(len(names))]
		add(Act{At: within(busy), Kind: Schedule, Definition: name, Devices: some(r, devices), Choice: r.IntN(2)})
		add(Act{At: busy + 5*time.Minute, Kind: Unschedule, Definition: name})
	}
	if p.Mood.Alarms && r.IntN(10) == 0 {
		to := within(busy)
		d := &Drill{At: to + time.Second + time.Duration(r.Int64N(int64(4*time.Minute))).Truncate(time.Millisecond), Keep: r.IntN(2) == 0, Late: r.IntN(2) == 0}
		for i := range d.To {
			d.To[i] = to + time.Duration(r.IntN(1000))*time.Millisecond
		}
		if r.IntN(3) == 0 { // to the very same moment
			d.To = [4]time.Duration{to, to, to, to}
		}
		p.Drill = d
	}
	slices.SortStableFunc(p.Acts, func(a, b Act) int { return int(a.At - b.At) })
	for i := range p.Acts {
		p.Acts[i].N = i + 1
	}
	return p
}

// some are a few devices that lie side by side, in any order.
func some(r *rand.Rand, devices int) (ids []string) {
	from := r.IntN(devices)
	for i := range 1 + r.IntN(devices-from) {
		ids = append(ids, deviceName(from+i))
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func deviceName(i int) string { return fmt.Sprintf("d%03d", i) }
