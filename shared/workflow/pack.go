package workflow

import (
	"fmt"
	"time"
)

// PackKey names one pack item. The step run is named by visit and RunSeq; Pos is
// the step within a per-entity pipeline, 0 without one.
type PackKey struct {
	Tenant         string `json:"tenant"`
	Execution      string `json:"x"`
	StepRunOrdinal int    `json:"v"`
	StepRunSeq     int    `json:"r"`
	Lane           int    `json:"l"`
	PipelinePos    int    `json:"p,omitempty"`
	Attempt        int    `json:"a"` // from 1
}

// Shard is the done set the lane belongs to.
func (k PackKey) Shard() int { return k.Lane / LanesPerShard }

// StepRunKey names the step run the pack belongs to.
func (k PackKey) StepRunKey() StepRunKey {
	return StepRunKey{Tenant: k.Tenant, Execution: k.Execution, Ordinal: k.StepRunOrdinal, Seq: k.StepRunSeq}
}

func (k PackKey) String() string {
	return fmt.Sprintf("%s/%d.%d/%d.%d.%d", k.Execution, k.StepRunOrdinal, k.StepRunSeq, k.Lane, k.PipelinePos, k.Attempt)
}

// StepRunKey names a step run's packs and done sets.
type StepRunKey struct {
	Tenant    string
	Execution string
	Ordinal   int
	Seq       int
}

// Pack is the key of a lane of the run.
func (k StepRunKey) Pack(lane, attempt int) PackKey {
	return PackKey{Tenant: k.Tenant, Execution: k.Execution, StepRunOrdinal: k.Ordinal, StepRunSeq: k.Seq, Lane: lane, Attempt: attempt}
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
	Key             PackKey
	State           PackState
	Token           int       // +1 with every take-over, from 1
	Lease           time.Time // end of the holder's lease
	CancelRequested bool      // the engine asks the holder to stop
	Nonce           string    // of the claim call, recognises a claim whose reply was lost
	Worker          string
	ClaimedAt       time.Time
	FinishedAt      time.Time
	Jobs            []JobRecord
	Cost            Cost // what its worker has consumed up to the last write

	// ExpectedLease, if it is set, asks that a write of the pack is made only if its lease
	// is still this: others may be writing under the same token. It is not stored.
	ExpectedLease time.Time
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
	ClaimFinal        ClaimVerdict = iota // go on to what follows a final pack
	ClaimLeased                           // somebody's lease runs: come back at its end
	ClaimTakeOver                         // the lease is over: take it, conditional on token and lease as read
	ClaimLeftToEngine                     // the engine has to close it: leave it alone
)

// EvaluateClaim decides what a worker may do with an existing pack. skew is how far
// clocks may differ, maxToken the cap on take-overs.
func EvaluateClaim(p *Pack, now time.Time, skew time.Duration, maxToken int) ClaimVerdict {
	switch {
	case p.Final():
		return ClaimFinal
	case !p.Lease.Before(now.Add(-skew)):
		return ClaimLeased
	case p.CancelRequested || p.Token >= maxToken:
		return ClaimLeftToEngine
	}
	return ClaimTakeOver
}

// RetryableJobs lists the indexes of the jobs that a final pack hands to its
// successor: those that failed in a way that repeating can help, while attempts
// are left. A cancelled pack has no successor.
func RetryableJobs(p *Pack, maxAttempts int) []int {
	if p.State != PackFinished || p.Key.Attempt >= maxAttempts {
		return nil
	}
	var indexes []int
	for _, j := range p.Jobs {
		if j.Code == JobCodeFail && j.Failure != nil && j.Failure.Retryable {
			indexes = append(indexes, j.Index)
		}
	}
	return indexes
}

// Unsuccessful reports whether a final pack leaves a job that did not come to OK.
func (p *Pack) Unsuccessful() bool {
	for _, j := range p.Jobs {
		if j.Code != JobCodeOK {
			return true
		}
	}
	return false
}

// HasUpdates reports whether some job of the pack that came to OK asks for
// updates of entities.
func (p *Pack) HasUpdates() bool {
	for _, j := range p.Jobs {
		if j.Code == JobCodeOK && len(j.Updates) > 0 {
			return true
		}
	}
	return false
}

// DoneSet is one shard's set of lanes that are over, and of those that left a
// job without success. Lanes are numbered within the shard, from 0.
type DoneSet struct {
	Done         map[int]bool
	Unsuccessful map[int]bool
	WithUpdates  map[int]bool // lanes with jobs that ask for updates of entities
	Cost         Cost
}

// LaneResult is what the done set keeps of a lane that is over.
type LaneResult struct {
	Unsuccessful bool // some job did not come to OK
	HasUpdates   bool // some job asks for updates of entities
	Cost         Cost
}
