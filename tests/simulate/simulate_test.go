package simulate

import (
	"testing"

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
