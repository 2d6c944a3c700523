package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// processPatterns are who is killed, by what a command line holds. What else can happen
// stands in strike.
var processPatterns = map[string]string{
	"api": "functions/api/bootstrap", "lifecycle": "functions/lifecycle/bootstrap", "sweeper": "functions/sweeper/bootstrap",
	"worker function": "functions/worker/bootstrap", "worker process": "fleet-worker",
}

// killRound is what happens in a round, in an order of its own each time. So every
// kind of process dies, however short the test is.
var killRound = []string{
	"api", "lifecycle", "worker function", "worker process", "sweeper", "pause", "dynamodb",
	"api", "lifecycle", "worker function", "worker process", "stack",
	"worker function", "worker process", "lifecycle", "sweeper", "power",
}

// killer kills until ctx ends and everybody has had his turn, and counts. The gaps
// between two blows are short and long at random.
type killer struct {
	*fixture
	random *rand.Rand
	kills  map[string]int
}

func (k *killer) killUntilDone(ctx context.Context, gapAtFirst time.Duration) {
	gap := gapAtFirst
	var plan []string
	for rounds := 0; ; {
		if len(plan) == 0 {
			rounds++
			plan = slices.Clone(killRound)
			k.random.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
		}
		if ctx.Err() != nil && rounds > 1 {
			return
		}
		if rounds == 2 {
			gap = 2 * gapAtFirst // time for something to come of the runs, too
		}
		time.Sleep(time.Duration(k.random.ExpFloat64() * float64(gap))) // the gap is what is tried
		k.setDeviceFaults()
		if k.kill(ctx, plan[0]) {
			k.kills[plan[0]]++
		}
		plan = plan[1:]
	}
}

// kill does one thing, and tells whether it has hit anybody.
func (k *killer) kill(ctx context.Context, what string) bool {
	away := time.Duration(k.random.IntN(400)) * time.Millisecond
	switch what {
	case "dynamodb":
		return k.killTables(away)
	case "stack":
		return k.killStack()
	case "power":
		k.addFaultCounts()
		_ = syscall.Kill(k.stack.PID(), syscall.SIGKILL) // it lives: nobody else kills it
		return k.killTables(away) && k.killStack()
	case "pause":
		return k.pauseWorkers(ctx)
	}
	pids := k.pids(processPatterns[what])
	for deadline := time.Now().Add(testTimeout); len(pids) == 0 && time.Now().Before(deadline); pids = k.pids(processPatterns[what]) {
		time.Sleep(5 * time.Millisecond) // it has not come back from the last time yet; a poll with a deadline
	}
	if len(pids) == 0 {
		k.t.Errorf("the %s does not come back", what)
		return false
	}
	if k.random.IntN(3) > 0 {
		pids = []int{pids[k.random.IntN(len(pids))]}
	}
	hit := false
	for _, pid := range pids {
		hit = syscall.Kill(pid, syscall.SIGKILL) == nil || hit
	}
	return hit
}

// pauseWorkers stops workers for longer than their lease: they come back to work that
// is not theirs any more.
func (k *killer) pauseWorkers(ctx context.Context) bool {
	pids := append(k.pids(processPatterns["worker function"]), k.pids(processPatterns["worker process"])...)
	k.random.Shuffle(len(pids), func(i, j int) { pids[i], pids[j] = pids[j], pids[i] })
	pids = pids[:(len(pids)+1)/2]
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(jobLease + time.Duration(k.random.IntN(2000))*time.Millisecond):
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT) // the same
		}
	}()
	return len(pids) > 0
}

// setDeviceFaults lets one device be slow, and another break off in the middle of its next
// change, refuse it or claim that it has made it.
func (k *killer) setDeviceFaults() {
	ids := k.fleet.IDs()
	any := func() string { return ids[k.random.IntN(len(ids))] }
	b := slowBehaviour(time.Duration(50+k.random.IntN(400)) * time.Millisecond)
	_ = k.fleet.SetBehaviour(b, any()) // the devices exist, and the behaviour is valid
	b = slowBehaviour(normalDelay)
	// A rollback is not repeated when a device refuses it: most runs should be able
	// to undo what they have done, so that it can be judged.
	once := simulator.Fault{Times: 1, Operations: []simulator.Operation{simulator.OpUpgrade, simulator.OpTouch}}
	if k.random.IntN(6) == 0 {
		once.Operations = append(once.Operations, simulator.OpRollback)
	}
	switch k.random.IntN(4) {
	case 0:
		b.Drop = &simulator.Drop{Fault: once, Point: simulator.DropBefore}
	case 1:
		b.Drop = &simulator.Drop{Fault: once, Point: simulator.DropAfter}
	case 2:
		b.Drop = &simulator.Drop{Fault: once, Point: simulator.DropAnswering}
	case 3:
		b.Refuse = &simulator.Refuse{Fault: once}
	}
	_ = k.fleet.SetBehaviour(b, any()) // the same
}

// normalDelay is how long a good device takes for a change.
const normalDelay = 15 * time.Millisecond

func slowBehaviour(d time.Duration) simulator.Behaviour {
	return simulator.Behaviour{Slow: &simulator.Slow{Delay: simulator.Duration(d)}}
}
