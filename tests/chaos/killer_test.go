package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// processPatterns maps a kind of process to a pattern of its command line. The other
// kinds are in killer.kill.
var processPatterns = map[string]string{
	"api": "functions/api/bootstrap", "lifecycle": "functions/lifecycle/bootstrap", "sweeper": "functions/sweeper/bootstrap",
	"observer": "functions/observer/bootstrap", "worker function": "functions/worker/bootstrap", "worker process": "fleet-worker",
}

// killRound is one round, shuffled each time, so that every kind of process is killed
// even in a short test.
var killRound = []string{
	"api", "lifecycle", "worker function", "worker process", "sweeper", "pause", "dynamodb",
	"api", "lifecycle", "worker function", "worker process", "stack",
	"worker function", "worker process", "lifecycle", "sweeper", "power",
}

// killer kills processes at random and counts the kills.
type killer struct {
	*fixture
	random *rand.Rand
	kills  map[string]int
}

// killUntilDone kills until ctx has ended and one round is complete. The time between
// kills is random.
func (k *killer) killUntilDone(ctx context.Context, firstGap time.Duration) {
	gap := firstGap
	var plan []string
	for rounds := 0; ; {
		if len(plan) == 0 {
			rounds++
			if plan = slices.Clone(killRound); *told {
				plan = append(plan, "observer", "observer")
			}
			k.random.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
		}
		if ctx.Err() != nil && rounds > 1 {
			return
		}
		if rounds == 2 {
			gap = 2 * firstGap // so that some executions can make progress
		}
		time.Sleep(time.Duration(k.random.ExpFloat64() * float64(gap))) // part of the test
		k.setDeviceFaults()
		if k.kill(ctx, plan[0]) {
			k.kills[plan[0]]++
		}
		plan = plan[1:]
	}
}

// kill performs one kind of kill and reports whether it hit a process.
func (k *killer) kill(ctx context.Context, what string) bool {
	downtime := time.Duration(k.random.IntN(400)) * time.Millisecond
	switch what {
	case "dynamodb":
		return k.killTables(downtime)
	case "stack":
		if *told {
			k.hideMessages(stackHiddenSeconds)
		}
		return k.killStack()
	case "power":
		k.addFaultCounts()
		if *told {
			k.hideMessages(stackHiddenSeconds)
		}
		_ = syscall.Kill(k.stack.PID(), syscall.SIGKILL) // it runs: only the killer kills it
		return k.killTables(downtime) && k.killStack()
	case "pause":
		return k.pauseWorkers(ctx)
	}
	pids := k.pids(processPatterns[what])
	if what == "observer" && len(pids) == 0 {
		return false // nothing is told at the moment
	}
	for deadline := time.Now().Add(testTimeout); len(pids) == 0 && time.Now().Before(deadline); pids = k.pids(processPatterns[what]) {
		time.Sleep(5 * time.Millisecond) // it has not been restarted yet; a poll with a deadline
	}
	if len(pids) == 0 {
		k.t.Errorf("no %s process within %s", what, testTimeout)
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

// pauseWorkers stops workers for longer than their lease: when they continue, their packs
// belong to others.
func (k *killer) pauseWorkers(ctx context.Context) bool {
	pids := append(k.pids(processPatterns["worker function"]), k.pids(processPatterns["worker process"])...)
	k.random.Shuffle(len(pids), func(i, j int) { pids[i], pids[j] = pids[j], pids[i] })
	pids = pids[:(len(pids)+1)/2]
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // fails if it has ended
	}
	pause := jobLease + time.Duration(k.random.IntN(2000))*time.Millisecond
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT) // fails if it has ended
		}
	}()
	return len(pids) > 0
}

// setDeviceFaults makes one device slow, and another drop the connection during its next
// change or reject it.
func (k *killer) setDeviceFaults() {
	ids := k.fleet.IDs()
	anyDevice := func() string { return ids[k.random.IntN(len(ids))] }
	b := slowBehaviour(time.Duration(50+k.random.IntN(400)) * time.Millisecond)
	_ = k.fleet.SetBehaviour(b, anyDevice()) // the device exists and the behaviour is valid
	b = slowBehaviour(normalDelay)
	// A rejected rollback is not retried. Most executions should be able to roll back,
	// so that the checker can decide which version is allowed.
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
	_ = k.fleet.SetBehaviour(b, anyDevice()) // as above
}

// normalDelay is how long a normal device takes for a change.
const normalDelay = 15 * time.Millisecond

func slowBehaviour(d time.Duration) simulator.Behaviour {
	return simulator.Behaviour{Slow: &simulator.Slow{Delay: simulator.Duration(d)}}
}
