package trouble

import (
	"math/rand/v2"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/queue"
)

// Mood is how bad a play is. The zero value is a world without any fault.
type Mood struct {
	Faults   int           // one call in so many is struck; 0 none
	Pauses   int           // before one call in so many whoever makes it stands still for long; 0 none
	Slow     time.Duration // how long a call takes at most, but for pauses
	Skew     time.Duration // how far a clock may be off, either way
	Until    time.Duration // from then on nothing goes wrong any more
	Messages queue.Faults
	Fail     int  // one call of a block in so many fails; 0 none
	Retry    int  // of these, one in so many may be retried
	Die      int  // during one call of a block in so many its worker dies; 0 none
	Long     int  // one call of a block in so many takes very long; 0 none
	Set      int  // one call of a block in so many asks for an attribute to be set; 0 none
	Vanish   int  // of the messages whose worker has died, one in so many has come too often and is gone; 0 none
	Brink    bool // blocks take about as long as their leases, and who writes a pack hesitates
	Meddle   bool // operators cancel runs that are being rolled back
	Deploy   bool // programs of a newer release replace those of the present one
	Alarms   bool // the alarm clock rings; without, messages alone must do
}

// Calm is a world in which messages come twice and in any order, but nobody dies
// and nothing is lost: it needs no alarm clock.
func Calm(r *rand.Rand) Mood {
	m := Mood{
		Slow: slowness(r), Until: 24 * time.Hour, Messages: queue.Faults{Shuffle: true, Duplicate: r.IntN(4)},
		Fail: pick(r, 0, 0, 6), Retry: 2, Set: pick(r, 0, 3),
	}
	return m
}

// Draw draws a mood.
func Draw(r *rand.Rand) Mood {
	if r.IntN(6) == 0 {
		return Calm(r)
	}
	return Mood{
		Faults: pick(r, 0, 100, 40, 15, 8), Pauses: pick(r, 0, 0, 150, 50, 20), Slow: slowness(r),
		Skew: time.Duration(pick(r, 0, 0, 1000)) * time.Millisecond, Until: time.Duration(2+r.IntN(12)) * time.Minute,
		Messages: queue.Faults{Shuffle: r.IntN(3) > 0, Duplicate: pick(r, 0, 0, 2, 3, 6), Lose: pick(r, 0, 0, 0, 8)},
		Fail:     pick(r, 0, 0, 20, 8, 3), Retry: 1 + r.IntN(2), Die: pick(r, 0, 0, 0, 12, 5), Long: pick(r, 0, 0, 0, 10),
		Set: pick(r, 0, 3, 2), Deploy: r.IntN(5) == 0, Alarms: true,
		Vanish: pick(r, 0, 0, 2), Brink: r.IntN(5) == 0, Meddle: r.IntN(3) == 0,
	}
}

func slowness(r *rand.Rand) time.Duration {
	return time.Duration(pick(r, 10, 100, 100, 1000)) * time.Millisecond
}

func pick(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }
