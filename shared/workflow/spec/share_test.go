package spec_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Of a tolerance the fraction is dropped, and of a share of a rollout a part of an entity counts as one.
// Both are exact for the decimals that were written.
func TestPercent_IsOfTheDecimalsThatWereWritten(t *testing.T) {
	for _, c := range []struct {
		percent       float64
		total         int
		fail, inWaves int
	}{
		{5, 39, 1, 2}, {25, 4, 1, 1}, {24, 4, 0, 1}, {100, 7, 7, 7}, {0.01, 9_999, 0, 1}, {0.01, 10_000, 1, 1},
		{1.4, 5_500, 77, 77}, {0.57, 10_000, 57, 57}, {2.01, 10_000, 201, 201}, {1.1, 1_000, 11, 11}, {33.3333, 3, 0, 1}, {50, 0, 0, 0},
	} {
		tolerance := spec.Tolerance{Percent: c.percent}
		if got := tolerance.Most(c.total); got != c.fail {
			t.Errorf("%v%% of %d: %d may fail, want %d", c.percent, c.total, got, c.fail)
		}
		if !tolerance.Allows(c.fail, c.total) || tolerance.Allows(c.fail+1, c.total) {
			t.Errorf("%v%% of %d does not allow exactly %d failures", c.percent, c.total, c.fail)
		}
		if got := (spec.Share{Percent: c.percent}).Of(c.total); got != c.inWaves {
			t.Errorf("%v%% of %d: a wave with %d, want %d", c.percent, c.total, got, c.inWaves)
		}
	}
	if (spec.Tolerance{Count: 2}).Most(10) != 2 || (spec.Share{Count: 3}).Of(10) != 3 {
		t.Error("a count is not itself")
	}
}
