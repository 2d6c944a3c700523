package workflow

import (
	"fmt"
	"time"
)

// PackKey names one pack item. The step run is named by visit and RunSeq; Pos is
// the step within a per-entity pipeline, 0 without one.
type PackKey struct {
	Tenant    string `json:"tenant"`
	Execution string `json:"x"`
	Visit     int    `json:"v"`
	RunSeq    int    `json:"r"`
	Lane      int    `json:"l"`
	Pos       int    `json:"p,omitempty"`
	Attempt   int    `json:"a"` // from 1
}

// Shard is the done set the lane belongs to.
func (k PackKey) Shard() int { return k.Lane / LanesPerShard }

// Run names the step run the pack belongs to.
func (k PackKey) Run() RunKey {
	return RunKey{Tenant: k.Tenant, Execution: k.Execution, Visit: k.Visit, RunSeq: k.RunSeq}
}

func (k PackKey) String() string {
	return fmt.Sprintf("%s/%d.%d/%d.%d.%d", k.Execution, k.Visit, k.RunSeq, k.Lane, k.Pos, k.Attempt)
}

// RunKey names a step run's packs and done sets.
type RunKey struct {
	Tenant    string
	Execution string
	Visit     int
	RunSeq    int
}

// Pack is the key of a lane of the run.
func (k RunKey) Pack(lane, attempt int) PackKey {
	return PackKey{Tenant: k.Tenant, Execution: k.Execution, Visit: k.Visit, RunSeq: k.RunSeq, Lane: lane, Attempt: attempt}
}

// PackState is the state of a pack item. An item that does not exist yet is
// absent: nobody has claimed it.
type PackState string

// The states; FINISHED and CANCELLED are final.
const (
	PackClaimed   PackState = "CLAIMED"
	PackFinished  PackState = "FINISHED"
	PackCancelled PackState = "CANCELLED"
)

// Pack is the item that arbitrates who works on a handful of jobs and keeps
// what came of each.
type Pack struct {
	Key        PackKey
	State      PackState
	Token      int       // +1 with every take-over, from 1
	Lease      time.Time // end of the holder's lease
	Cancel     bool      // the engine asks the holder to stop
	Nonce      string    // of the claim call, recognises a claim whose reply was lost
	Worker     string
	ClaimedAt  time.Time
	FinishedAt time.Time
	Jobs       []JobRecord
	Cost       Cost // what its worker has consumed up to the last write

	// Seen, if it is set, asks that a write of the pack is made only if its lease
	// is still this: others may be writing under the same token. It is not stored.
	Seen time.Time
}

// Final reports whether nothing will change the pack any more.
func (p *Pack) Final() bool {
	return p != nil && (p.State == PackFinished || p.State == PackCancelled)
}

// MaxPackToken bounds take-overs of one pack: the fence has two digits for it.
const MaxPackToken = 99

// ClaimVerdict is what a worker may do with a pack item that exists.
type ClaimVerdict int

// The verdicts.
const (
	ClaimFinal    ClaimVerdict = iota // go on to what follows a final pack
	ClaimLive                         // somebody's lease runs: come back at its end
	ClaimTakeOver                     // the lease is over: take it, conditional on token and lease as read
	ClaimEngines                      // the engine has to close it: leave it alone
)

// JudgeClaim decides what a worker may do with an existing pack. skew is how far
// clocks may differ, maxToken the cap on take-overs.
func JudgeClaim(p *Pack, now time.Time, skew time.Duration, maxToken int) ClaimVerdict {
	switch {
	case p.Final():
		return ClaimFinal
	case !p.Lease.Before(now.Add(-skew)):
		return ClaimLive
	case p.Cancel || p.Token >= maxToken:
		return ClaimEngines
	}
	return ClaimTakeOver
}

// Retries lists the indexes of the jobs that a final pack hands to its
// successor: those that failed in a way that repeating can help, while attempts
// are left. A cancelled pack has no successor.
func Retries(p *Pack, maxAttempts int) []int {
	if p.State != PackFinished || p.Key.Attempt >= maxAttempts {
		return nil
	}
	var again []int
	for _, j := range p.Jobs {
		if j.Code == CodeFail && j.Failure != nil && j.Failure.Retryable {
			again = append(again, j.Index)
		}
	}
	return again
}

// Bad reports whether a final pack leaves a job that did not come to OK.
func (p *Pack) Bad() bool {
	for _, j := range p.Jobs {
		if j.Code != CodeOK {
			return true
		}
	}
	return false
}

// AsksUpdates reports whether some job of the pack that came to OK asks for
// updates of entities.
func (p *Pack) AsksUpdates() bool {
	for _, j := range p.Jobs {
		if j.Code == CodeOK && len(j.Updates) > 0 {
			return true
		}
	}
	return false
}

// DoneSet is one shard's set of lanes that are over, and of those that left a
// job without success. Lanes are numbered within the shard, from 0.
type DoneSet struct {
	Done    map[int]bool
	Bad     map[int]bool
	Updates map[int]bool // lanes with jobs that ask for updates of entities
	Cost    Cost
}

// LaneEnd is what the done set keeps of a lane that is over.
type LaneEnd struct {
	Bad     bool // some job did not come to OK
	Updates bool // some job asks for updates of entities
	Cost    Cost
}
