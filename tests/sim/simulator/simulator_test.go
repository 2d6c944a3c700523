package simulator

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestSimulator_InvariantsHoldForAllSeeds simulates some hundred seeds.
func TestSimulator_InvariantsHoldForAllSeeds(t *testing.T) {
	sum := RunSeeds(0, 300, 2, 5, nil)
	t.Logf("%d seeds, %d executions, %d calls, %d faults, %.0f hours of simulated time, %d of %d ends of later tries judged", sum.Seeds, sum.Executions, sum.Calls, sum.Faults, sum.SimulatedHours, sum.Ends.Judged, sum.Ends.Later)
	if sum.Ends.Judged*2 <= sum.Ends.Later {
		t.Error("the ends of most later tries are not judged")
	}
	for _, r := range sum.Failed {
		t.Errorf("seed %d: %v", r.Seed, r.Violation)
	}
}

// TestSimulator_SeedsThatBrokeAnInvariant simulates seeds that broke an invariant once.
func TestSimulator_SeedsThatBrokeAnInvariant(t *testing.T) {
	for _, seed := range []uint64{1129, 27116271, 660000067, 1100006933, 1200005373, 63919707, 7200986, 60062453, 60066587, 60076096, 880003597, 9000001677, 42000000479, 100000006324, 100000018375, 100000024551, 100000037787, 100000116236, 100000281117, 100000162263, 100000237932, 100000152906, 100000159353, 100000329611, 100000331010, 100000237499, 100000265758, 505, 100000306098, 200000019855, 100000048352, 100000056375, 100000150131, 100000058382, 100000111996, 100000123939, 300000061129, 460000000045, 500000042330, 530000002676, 520000016581, 560000000047, 560000000160, 841000032450, 720000033289, 850100001058, 870000002961} {
		if r := New(newCorpus(seed)).Run(seed, Cut{}, nil); r.Violation != nil {
			t.Errorf("seed %d: %v", seed, r.Violation)
		}
	}
}

// TestSimulator_DeterministicBySeed simulates seeds after others, while the same seeds are simulated alone. make test
// runs it under the race detector, too: simulations share nothing that changes.
func TestSimulator_DeterministicBySeed(t *testing.T) {
	const seeds = 20
	var alone [seeds]Result
	var wg sync.WaitGroup
	wg.Go(func() {
		for seed := range uint64(seeds) {
			alone[seed] = New(newCorpus(0)).Run(seed, Cut{}, nil)
		}
	})
	var after [seeds]Result
	one := New(newCorpus(0))
	for seed := range uint64(seeds) {
		after[seed] = one.Run(seed, Cut{}, nil)
	}
	wg.Wait()
	for seed, r := range after {
		if again := alone[seed]; r.Digest != again.Digest || r.Calls != again.Calls || r.Calls == 0 {
			t.Errorf("seed %d: %d calls, alone %d", seed, r.Calls, again.Calls)
		}
	}
}

// TestSimulator_InvariantsHoldAfterRestore restores the tables in the middle of simulations, as
// the runbook does: each table by itself and up to a second apart, with the queues purged and
// not, and with workers that are not stopped. All invariants hold afterwards, and devices,
// which are not restored, see no fence that is smaller than one before.
func TestSimulator_InvariantsHoldAfterRestore(t *testing.T) {
	drills, unsafe := 0, 0
	for seed := uint64(0); drills < 40; seed++ {
		if newScenario(seed).RestoreDrill == nil {
			continue
		}
		simulator := New(newCorpus(seed))
		restored := false
		r := simulator.Run(seed, Cut{}, func(format string, args ...any) {
			line := fmt.Sprintf(format, args...)
			restored = restored || strings.Contains(line, "THE TABLES ARE RESTORED")
			if restored && strings.Contains(line, " -> FAILED_UNSAFE") && strings.Contains(line, string(workflow.CauseRestored)) {
				unsafe++
			}
		})
		if r.Violation != nil {
			t.Errorf("seed %d: %v", seed, r.Violation)
		}
		if restored {
			drills++
		}
	}
	t.Logf("%d restores, after which %d executions failed unsafe", drills, unsafe)
	if unsafe == 0 {
		t.Error("no restore failed an execution")
	}
}

// TestScenario_Shares prints in how many scenarios what is rare is drawn, and requires that each of these is.
func TestScenario_Shares(t *testing.T) {
	const seeds = 30_000
	counts := map[string]int{}
	for seed := range uint64(seeds) {
		p := newScenario(seed)
		for name, drawn := range map[string]bool{
			"results apart": p.LargeResults, "programs that poll": p.PolledOneIn > 0, "long queue": p.QueueTime > 0, "wake-ups that fail": p.StallTime > 0,
			"restore": p.RestoreDrill != nil, "retention": p.Retention > 0, "ends that start": p.Ends,
		} {
			if drawn {
				counts[name]++
			}
		}
	}
	for name, want := range map[string]int{"results apart": 200, "programs that poll": 10, "long queue": 600, "wake-ups that fail": 300, "restore": 20, "retention": 20, "ends that start": 60} {
		t.Logf("%s: one scenario in %.0f", name, seeds/float64(max(1, counts[name])))
		if n := counts[name]; n < seeds/want/2 {
			t.Errorf("%s: %d scenarios of %d, want one in %d", name, n, seeds, want)
		}
	}
}

// TestSimulator_KeepsLargeResultsApart: where results are large, workers store them in items of their own, and the
// invariants hold.
func TestSimulator_KeepsLargeResultsApart(t *testing.T) {
	scenarios, stored := 0, 0
	for seed := uint64(0); scenarios < 12; seed++ {
		if !newScenario(seed).LargeResults {
			continue
		}
		scenarios++
		r := New(newCorpus(seed)).Run(seed, Cut{}, func(format string, args ...any) {
			if line := fmt.Sprintf(format, args...); strings.Contains(line, "packs.save_payload") && strings.Contains(line, " worker") {
				stored++
			}
		})
		if r.Violation != nil {
			t.Errorf("seed %d: %v", seed, r.Violation)
		}
	}
	t.Logf("%d scenarios: workers have stored %d results apart", scenarios, stored)
	if stored == 0 {
		t.Error("no result was stored in items of its own")
	}
}
