package simulate

import (
	"container/heap"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/tests/simulate/invariant"
	"github.com/lockstep-run/lockstep/tests/simulate/trouble"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// Result is what came of one play.
type Result struct {
	Seed      uint64
	Calls     int // calls made, of ports and of blocks
	Runs      int
	Virtual   time.Duration // how long it took in the world
	Digest    uint64        // of all calls in their order
	Strikes   []trouble.Strike
	Violation *invariant.Violation // nil if all held
}

// world is one play under way.
type world struct {
	*Theatre
	play  workload.Play
	luck  *trouble.Luck
	watch *invariant.Watch
	begin time.Time

	running  processes
	current  *process // the one that is at work, nil between two
	spawned  int
	looks    int // handlers of lifecycle messages at work
	packs    [crew]int
	runs     []string          // in order of their answer
	answered map[string]string // runs by request
	acts     []workload.Act
	swept    time.Time // the last minute of the alarm clock
	audit    time.Time // when an operator goes round next
	again    int       // how often that operator has tried something else than to acknowledge
	schedule []string
	off      map[string]bool // definitions whose schedules have been switched off
	drilled  drilled
	digest   uint64
	tell     func(format string, args ...any) // of what happens, for people
}

// maxCalls bounds a play.
const maxCalls = 60_000

// Play plays one seed. tell, unless it is nil, is told of all that happens.
func (t *Theatre) Play(seed uint64, cut Cut, tell func(format string, args ...any)) Result {
	p := workload.Draw(seed)
	p.Acts = slices.DeleteFunc(p.Acts, func(a workload.Act) bool { return slices.Contains(cut.Acts, a.N) })
	for _, a := range p.Acts {
		if a.Definition != "" {
			t.ready(cut, a.Definition)
		}
	}
	t.World, t.Called = t.base.Sequel(seed), nil
	w := &world{Theatre: t, play: p, acts: p.Acts, begin: t.base.Now(), watch: invariant.New(), swept: t.base.Now(), answered: map[string]string{}, off: map[string]bool{}}
	if tell != nil {
		w.tell = w.telling(tell)
	}
	w.watch.Skew, w.watch.Tell = p.Mood.Skew+time.Millisecond, w.tell
	w.watch.Importing = func() bool { return w.current != nil && strings.HasPrefix(w.current.name, "import") }
	w.watch.Late = func() bool { return w.current != nil && w.current.late }
	t.Engine.Policy.Floor = 0
	w.luck = trouble.NewLuck(seed, p.Mood, w.elapsed, cut.allows)
	t.Watcher = w.watch
	t.Deliveries = p.Mood.Messages
	t.Faults = w.fault
	t.Clock, t.Enter, t.Release, t.Script = w.clock, w.enter, w.releaseNow, w.script
	return w.run()
}

func (w *world) run() (r Result) {
	r.Seed = w.play.Seed
	defer func() {
		if cause := recover(); cause != nil {
			r.Violation = &invariant.Violation{Law: "no panic", Text: fmt.Sprintf("%v\n%s", cause, debug.Stack())}
		}
		w.current = nil
		w.clear()
		r.Calls, r.Runs, r.Virtual = w.Calls(), len(w.States(stage.Caller.Tenant)), w.elapsed()
		r.Digest, r.Strikes = w.digest, w.luck.Struck()
	}()
	for w.next() {
		if r.Violation = w.watch.Broken(); r.Violation != nil {
			return r
		}
		if w.Calls() > maxCalls {
			r.Violation = &invariant.Violation{Law: "everything ends", Text: fmt.Sprintf("%d calls, and no end: %s", maxCalls, w.left())}
			return r
		}
		if w.elapsed() > patience {
			r.Violation = &invariant.Violation{Law: "everything ends", Text: fmt.Sprintf("after %s: %s", patience, w.left())}
			return r
		}
	}
	if r.Violation = w.watch.Broken(); r.Violation == nil {
		r.Violation = w.judge()
	}
	return r
}

func (w *world) elapsed() time.Duration { return w.Now().Sub(w.begin) }

// clock is the time as the process at work takes it.
func (w *world) clock() time.Time {
	if w.current == nil {
		return w.Now()
	}
	return w.Now().Add(w.current.skew)
}

// fault is what becomes of a call.
func (w *world) fault(c fate.Call) fate.Fault {
	for _, b := range []byte(c.Name) {
		w.digest = w.digest*1099511628211 ^ uint64(b)
	}
	w.digest ^= uint64(w.Now().UnixMilli())
	if w.current == nil {
		return fate.None // a question from outside of the play
	}
	f := w.luck.Fault(c)
	if w.tell != nil {
		w.tellCall(c, f)
	}
	return f
}

// enter lets time pass before a worker calls a block: less than the margin within
// which its lease is known to run.
func (w *world) enter() { w.stand("block.enter") }

func (w *world) stand(where string) {
	if w.current == nil {
		return
	}
	if c, f := w.Reach(where); f == fate.CrashBefore {
		panic(fate.Crash{Call: c})
	}
}

// script is what comes of a call of a block.
func (w *world) script(c stage.Call) *stage.Outcome {
	w.watch.Called(c)
	if w.tell != nil {
		w.tell("device %s is called: %s %s of %s, fence %s", c.Entity, c.Kind, c.Step, c.Job, c.Fence)
	}
	o := w.play.Outcome(c)
	o.Meanwhile = func() { w.stand("block.run") }
	return o
}

// A deployment replaces programs of one release by such of the next, which write
// items that the older ones refuse.
const present, newer = 1, 2

const deployFrom, deployed = time.Minute, 2 * time.Minute

func (w *world) newRelease() int {
	if !w.play.Mood.Deploy || w.elapsed() < deployFrom {
		return present
	}
	if w.elapsed() < deployed {
		return present + w.luck.Draw(2)
	}
	return newer
}

func (w *world) releaseNow() int {
	if w.current == nil {
		return newer
	}
	return w.current.release
}

// At most so many handlers and packs of one worker are at work at a time.
const maxLooks, maxPacks = 4, 2

// next lets the one thing happen that is due first. It reports whether there was
// any.
func (w *world) next() bool {
	at, do := w.end()
	sooner := func(t time.Time, what func()) {
		if do == nil || t.Before(at) {
			at, do = t, what
		}
	}
	if len(w.running) > 0 {
		sooner(w.running[0].at, func() { w.advance(heap.Pop(&w.running).(*process)) })
	}
	if len(w.acts) > 0 {
		sooner(w.begin.Add(w.acts[0].At), func() {
			a := w.acts[0]
			w.acts = w.acts[1:]
			w.act(a)
		})
	}
	if t, ok := w.Lifecycle().Next(); ok && w.looks < maxLooks {
		sooner(t, w.deliverLook)
	}
	pool := w.MakePool("default")
	if t, ok := pool.Next(); ok {
		if who := w.idle(); who >= 0 {
			sooner(t, func() { w.deliverPack(pool, who) })
		}
	}
	if t, ok := w.alarm(); ok {
		sooner(t, func() { w.sweep(t) })
	}
	if t, what := w.drill(); what != nil && (do != nil || w.elapsed() < t) {
		sooner(w.begin.Add(t), what)
	}
	if do == nil {
		return false
	}
	if now := w.Now(); at.After(now) {
		w.Advance(at.Sub(now))
	}
	if w.luck.Over() {
		w.Deliveries.Duplicate, w.Deliveries.Lose = 0, 0
	}
	w.watch.At = w.Now()
	do()
	for _, id := range w.watch.Rolling() {
		if w.play.Mood.Meddle {
			w.verb(workload.Act{Kind: workload.Cancel, Choice: w.luck.Draw(12)}, id)
		}
	}
	return true
}

// idle is a worker that has room for a pack, -1 if none has.
func (w *world) idle() int {
	from := w.luck.Draw(crew)
	for i := range crew {
		if who := (from + i) % crew; w.packs[who] < maxPacks {
			return who
		}
	}
	return -1
}

// hidden is how long a message that was received stays hidden.
const hidden = 30 * time.Second

// maxReceives is how often a message is received before it is put aside; one that
// comes that often in a world without faults is poison.
const maxReceives = 40

func (w *world) deliverLook() {
	m, ok := w.Lifecycle().Receive(hidden)
	if !ok {
		return
	}
	if m.Receives > maxReceives {
		w.Lifecycle().Delete(m)
		return
	}
	w.looks++
	w.spawn("lifecycle", -1, func() error { return w.look(m) }, func(p *process) {
		w.looks--
		if p.err == nil && !p.task.Crashed() {
			w.Lifecycle().Delete(m)
		}
	})
}

func (w *world) deliverPack(q *queue.Queue, who int) {
	m, ok := q.Receive(hidden)
	if !ok {
		return
	}
	if m.Receives > maxReceives {
		q.Delete(m)
		return
	}
	w.packs[who]++
	var again time.Duration
	w.spawn(fmt.Sprintf("worker%d", who), who, func() (err error) {
		again, err = w.Work(who, m.Pack())
		return err
	}, func(p *process) {
		w.packs[who]--
		switch {
		case p.err != nil || p.task.Crashed():
			if w.luck.Vanishes("the message of " + p.name) {
				q.Delete(m) // to where dead letters go
			}
		case again > 0:
			q.Defer(m, again)
		default:
			q.Delete(m)
		}
	})
}
