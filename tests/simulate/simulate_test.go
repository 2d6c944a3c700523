package simulate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// TestSeeds plays some hundred seeds.
func TestSeeds(t *testing.T) {
	sum := Run(0, 300, 2, 5, nil)
	t.Logf("%d seeds, %d runs, %d calls, %d faults, %s of time", sum.Seeds, sum.Runs, sum.Calls, sum.Strikes, sum.Virtual)
	for _, r := range sum.Failed {
		t.Errorf("seed %d: %v", r.Seed, r.Violation)
	}
}

// TestPlaysFollowFromTheirSeed plays seeds alone and after others.
func TestPlaysFollowFromTheirSeed(t *testing.T) {
	one := NewTheatre(workload.CompanyOf(0))
	for seed := range uint64(20) {
		r := one.Play(seed, Cut{}, nil)
		again := NewTheatre(workload.CompanyOf(0)).Play(seed, Cut{}, nil)
		if r.Digest != again.Digest || r.Calls != again.Calls || r.Calls == 0 {
			t.Errorf("seed %d: %d calls, then %d", seed, r.Calls, again.Calls)
		}
	}
}

// TestRestoreDrill sets the tables back in the middle of plays, as the runbook
// does, each by itself and up to a second apart: with the queues purged and not, and
// with workers that cannot be stopped. All laws hold of what follows, and devices,
// which are not set back, see no fence that is smaller than one before.
func TestRestoreDrill(t *testing.T) {
	drills, unsafe := 0, 0
	for seed := uint64(0); drills < 40; seed++ {
		if workload.Draw(seed).Drill == nil {
			continue
		}
		theatre := NewTheatre(workload.CompanyOf(seed))
		restored := false
		r := theatre.Play(seed, Cut{}, func(format string, args ...any) {
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
	t.Logf("%d restores, and %d runs were left to an operator by the look that found out", drills, unsafe)
	if unsafe == 0 {
		t.Error("no run was met by a restore")
	}
}
