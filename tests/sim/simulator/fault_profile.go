package simulator

import (
	"math/rand/v2"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim"
)

// faultProfile is how bad a play is. The zero value is a world without any fault.
type faultProfile struct {
	FaultOneIn        int           // one call in so many is struck; 0 none
	PauseOneIn        int           // before one call in so many whoever makes it stands still for long; 0 none
	MaxLatency        time.Duration // how long a call takes at most, but for pauses
	MaxSkew           time.Duration // how far a clock may be off, either way
	FaultsUntil       time.Duration // from then on nothing goes wrong any more
	QueueFaults       sim.QueueFaults
	BlockFailOneIn    int  // one call of a block in so many fails; 0 none
	RetryableOneIn    int  // of these, one in so many may be retried
	BlockCrashOneIn   int  // during one call of a block in so many its worker dies; 0 none
	LongBlockOneIn    int  // one call of a block in so many takes very long; 0 none
	SetAttributeOneIn int  // one call of a block in so many asks for an attribute to be set; 0 none
	LoseMessageOneIn  int  // of the messages whose worker has died, one in so many has come too often and is gone; 0 none
	LeaseRaces        bool // blocks take about as long as their leases, and who writes a pack hesitates
	CancelRollbacks   bool // operators cancel runs that are being rolled back
	RollingDeploy     bool // programs of a newer release replace those of the present one
	SweeperEnabled    bool // the alarm clock rings; without, messages alone must do
}

// duplicatesOnlyProfile is a world in which messages come twice and in any order, but nobody dies
// and nothing is lost: it needs no alarm clock.
func duplicatesOnlyProfile(r *rand.Rand) faultProfile {
	m := faultProfile{
		MaxLatency: randomLatency(r), FaultsUntil: 24 * time.Hour, QueueFaults: sim.QueueFaults{Shuffle: true, DuplicateOneIn: r.IntN(4)},
		BlockFailOneIn: pick(r, 0, 0, 6), RetryableOneIn: 2, SetAttributeOneIn: pick(r, 0, 3),
	}
	return m
}

// randomFaultProfile draws a mood.
func randomFaultProfile(r *rand.Rand) faultProfile {
	if r.IntN(6) == 0 {
		return duplicatesOnlyProfile(r)
	}
	return faultProfile{
		FaultOneIn: pick(r, 0, 100, 40, 15, 8), PauseOneIn: pick(r, 0, 0, 150, 50, 20), MaxLatency: randomLatency(r),
		MaxSkew: time.Duration(pick(r, 0, 0, 1000)) * time.Millisecond, FaultsUntil: time.Duration(2+r.IntN(12)) * time.Minute,
		QueueFaults:    sim.QueueFaults{Shuffle: r.IntN(3) > 0, DuplicateOneIn: pick(r, 0, 0, 2, 3, 6), LoseOneIn: pick(r, 0, 0, 0, 8)},
		BlockFailOneIn: pick(r, 0, 0, 20, 8, 3), RetryableOneIn: 1 + r.IntN(2), BlockCrashOneIn: pick(r, 0, 0, 0, 12, 5), LongBlockOneIn: pick(r, 0, 0, 0, 10),
		SetAttributeOneIn: pick(r, 0, 3, 2), RollingDeploy: r.IntN(5) == 0, SweeperEnabled: true,
		LoseMessageOneIn: pick(r, 0, 0, 2), LeaseRaces: r.IntN(5) == 0, CancelRollbacks: r.IntN(3) == 0,
	}
}

func randomLatency(r *rand.Rand) time.Duration {
	return time.Duration(pick(r, 10, 100, 100, 1000)) * time.Millisecond
}

func pick(r *rand.Rand, of ...int) int { return of[r.IntN(len(of))] }
