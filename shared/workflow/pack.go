package workflow

import (
	"fmt"
	"slices"
	"time"
)

// PackKey identifies one pack item. StepRunOrdinal and StepRunSeq identify the step run.
// PipelinePos is the position of the step in a per-entity pipeline; 0 without one.
type PackKey struct {
	Tenant         string `json:"tenant"`
	Execution      string `json:"x"`
	StepRunOrdinal int    `json:"v"`
	StepRunSeq     int    `json:"r"`
	Lane           int    `json:"l"`
	PipelinePos    int    `json:"p,omitempty"`
	Attempt        int    `json:"a"` // from 1
}

// Shard returns the number of the done set that the lane belongs to.
func (k PackKey) Shard() int { return k.Lane / LanesPerShard }

// StepRunKey returns the key of the step run that the pack belongs to.
func (k PackKey) StepRunKey() StepRunKey {
	return StepRunKey{Tenant: k.Tenant, Execution: k.Execution, Ordinal: k.StepRunOrdinal, Seq: k.StepRunSeq}
}

func (k PackKey) String() string {
	return fmt.Sprintf("%s/%d.%d/%d.%d.%d", k.Execution, k.StepRunOrdinal, k.StepRunSeq, k.Lane, k.PipelinePos, k.Attempt)
}

// StepRunKey identifies a step run's packs and done sets.
type StepRunKey struct {
	Tenant    string
	Execution string
	Ordinal   int
	Seq       int
}

// Pack returns the key of an attempt of a lane of the step run.
func (k StepRunKey) Pack(lane, attempt int) PackKey {
	return PackKey{Tenant: k.Tenant, Execution: k.Execution, StepRunOrdinal: k.Ordinal, StepRunSeq: k.Seq, Lane: lane, Attempt: attempt}
}

// PackState is the state of a pack item. A pack that nobody has claimed has no item yet.
type PackState string

// The states; FINISHED and CANCELLED are final.
const (
	PackClaimed   PackState = "CLAIMED"
	PackFinished  PackState = "FINISHED"
	PackCancelled PackState = "CANCELLED"
)

// Pack is the item that decides which worker has the jobs of one message, and that keeps the result
// of each job.
type Pack struct {
	Key             PackKey
	State           PackState
	Token           int       // +1 with every takeover, from 1
	Lease           time.Time // end of the holder's lease
	CancelRequested bool      // the engine asks the holder to stop
	Nonce           string    // of the claim call, to recognise a claim whose reply was lost
	Worker          string
	ClaimedAt       time.Time
	Confirmed       bool // a polling worker has reported about the claim, so it has received the response to its poll
	FinishedAt      time.Time
	Jobs            []JobRecord
	Cost            Cost // what its worker had consumed at the last write

	// ExpectedLease, if set, makes a write conditional on the lease in the item, because others may
	// write under the same token. It is not stored.
	ExpectedLease time.Time
}

// Final reports whether the pack will not change any more.
func (p *Pack) Final() bool {
	return p != nil && (p.State == PackFinished || p.State == PackCancelled)
}

// MaxPackToken bounds the takeovers of one pack: the fence has two digits for it.
const MaxPackToken = 99

// WorkerLost returns why the result of a job is unknown: which worker had claimed its pack, when,
// and until when it had promised to report.
func (p *Pack) WorkerLost() *Failure {
	details, err := EncodeJSON(struct {
		Worker    string    `json:"worker"`
		ClaimedAt time.Time `json:"claimedAt"`
		Lease     time.Time `json:"lease"`
	}{Truncate(p.Worker, maxShownWorker), p.ClaimedAt.UTC(), p.Lease.UTC()})
	if err != nil {
		details = nil
	}
	return &Failure{Code: FailureWorkerCrash, Message: "the worker stopped during the call: whether the block was executed is unknown", Details: details}
}

// maxShownWorker bounds a worker's name in a failure, in bytes.
const maxShownWorker = 128

// ClaimVerdict says what a worker may do with an existing pack item.
type ClaimVerdict int

// The verdicts.
const (
	ClaimFinal        ClaimVerdict = iota // the pack is final: continue with what follows it
	ClaimLeased                           // another lease is valid: try again when it ends
	ClaimTakeOver                         // the lease has expired: take over, conditional on token and lease as read
	ClaimLeftToEngine                     // the engine must close it
)

// EvaluateClaim decides what a worker may do with an existing pack. skew is the largest difference
// between clocks; maxToken is the limit on takeovers.
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

// RetryableJobs lists the indexes of the jobs that the next attempt of a final pack has: jobs with
// a retryable failure, while attempts are left, and jobs that were withheld. A cancelled pack has
// no next attempt.
func RetryableJobs(p *Pack, maxAttempts int) []int {
	return p.NextJobs(maxAttempts, func(f *Failure) bool { return f.Retryable })
}

// NextJobs works like RetryableJobs, but retry says which failures are retried.
func (p *Pack) NextJobs(maxAttempts int, retry func(*Failure) bool) []int {
	if p.State != PackFinished || p.Key.Attempt > MaxRetries {
		return nil
	}
	var indexes []int
	for _, j := range p.Jobs {
		if j.Code == JobCodeFail && j.Failure != nil && (j.Failure.Withheld() || p.Key.Attempt < maxAttempts && retry(j.Failure)) {
			indexes = append(indexes, j.Index)
		}
	}
	return indexes
}

// Unsuccessful reports whether a final pack has a job that did not end OK.
func (p *Pack) Unsuccessful() bool {
	for _, j := range p.Jobs {
		if j.Code != JobCodeOK {
			return true
		}
	}
	return false
}

// HasUpdates reports whether a job of the pack that ended OK requests entity updates.
func (p *Pack) HasUpdates() bool {
	for _, j := range p.Jobs {
		if j.Code == JobCodeOK && len(j.Updates) > 0 {
			return true
		}
	}
	return false
}

// DoneSet is the set of lanes of one shard that are over, and of those among them with an
// unsuccessful job. Lanes are numbered within the shard, from 0.
type DoneSet struct {
	Done         map[int]bool
	Unsuccessful map[int]bool
	Failures     map[int]JobFailures // failure counts of unsuccessful lanes, if known
	WithUpdates  map[int]bool        // lanes with jobs that request entity updates
	Cost         Cost

	// Added means, in the result of AddDone or AddDoneLanes, that a lane was not in the set before.
	Added bool
}

// NewDoneSet returns an empty set.
func NewDoneSet() DoneSet {
	return DoneSet{Done: map[int]bool{}, Unsuccessful: map[int]bool{}, Failures: map[int]JobFailures{}, WithUpdates: map[int]bool{}}
}

// Include adds a lane that is over.
func (s *DoneSet) Include(lane int, end LaneResult) {
	s.Added = !s.Done[lane]
	s.Done[lane] = true
	if end.Unsuccessful {
		s.AddFailures(lane, end.Failures)
	}
	if end.HasUpdates {
		s.WithUpdates[lane] = true
	}
	s.Cost.Add(end.Cost)
}

// IncludeAll adds lanes that ended OK. Added says whether one of them is new.
func (s *DoneSet) IncludeAll(lanes []int) {
	added := false
	for _, lane := range lanes {
		s.Include(lane, LaneResult{})
		added = added || s.Added
	}
	s.Added = added
}

// AddFailures marks a lane as unsuccessful. If its counts are given twice, the larger ones are
// kept.
func (s *DoneSet) AddFailures(lane int, f JobFailures) {
	s.Unsuccessful[lane] = true
	if f != (JobFailures{}) {
		known := s.Failures[lane]
		s.Failures[lane] = JobFailures{Failed: max(known.Failed, f.Failed), Unknown: max(known.Unknown, f.Unknown)}
	}
}

// LaneResult is what the done set keeps about a finished lane.
type LaneResult struct {
	Unsuccessful bool        // some job did not end OK
	Failures     JobFailures // counts of its failed jobs
	HasUpdates   bool        // some job requests entity updates
	Cost         Cost
}

// JobFailures counts jobs that have failed and jobs whose outcome is unknown.
type JobFailures struct {
	Failed  int `json:"failed,omitempty"`
	Unknown int `json:"unknown,omitempty"`
}

// Add counts a job that ended with the code.
func (f *JobFailures) Add(c JobCode) {
	switch c {
	case JobCodeFail:
		f.Failed++
	case JobCodeUnknown:
		f.Unknown++
	}
}

// Failures counts the jobs of the pack that have failed or whose outcome is unknown, without those
// at the given indexes, and adds them to before.
func (p *Pack) Failures(before JobFailures, without []int) JobFailures {
	for _, j := range p.Jobs {
		if !slices.Contains(without, j.Index) {
			before.Add(j.Code)
		}
	}
	return before
}
