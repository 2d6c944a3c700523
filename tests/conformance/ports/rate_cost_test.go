package ports_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A rate that is in use costs one write, whether or not there is something left of it: all of its
// writes are of one item, which takes only so many a second.
func TestDynamo_RateInUseCostsOneWrite(t *testing.T) {
	t.Parallel()
	m, tenant, now := new(cost.Meter), uuid.NewString(), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	registry := openView(&faultInjector{}, m).Registry
	for n, want := range []int{2, 1, 1, 1} { // the first finds no item, the last two nothing left
		use, err := registry.TakeRate(t.Context(), tenant, "r", workflow.Rate{Count: 2, Per: time.Minute}, 0, now)
		if err != nil || (use.Sequence > 0) != (n < 2) || (use.Wait == 0) != (n < 2) {
			t.Fatalf("%d: %+v, %v", n, use, err)
		}
		if got := m.Take().DynamoRequests; got != want {
			t.Errorf("%d costs %d requests, want %d", n, got, want)
		}
	}
}
