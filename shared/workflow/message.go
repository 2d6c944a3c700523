package workflow

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Wakeup is a lifecycle message: advance this execution. Everything else in it is a hint; the
// stored state decides. Cost is what the sender consumed for the execution and could not record
// elsewhere. [Wakeup.Merge] must keep every field, because messages are handled together.
type Wakeup struct {
	Tenant     string `json:"tenant"`
	Execution  string `json:"execution"`
	Reason     string `json:"reason,omitempty"`     // for logs
	Lane       *int   `json:"lane,omitempty"`       // a lane whose successor the engine must send
	StepRunSeq int    `json:"stepRunSeq,omitempty"` // of the step run that the lane belongs to; without a lane, of a step run whose only pack is final
	Children   []int  `json:"children,omitempty"`   // lanes of children that have started, or stopped, asking a person something
	FromParent bool   `json:"fromParent,omitempty"` // the parent no longer waits for the execution, so it must check
	OfTimer    bool   `json:"ofTimer,omitempty"`    // sent for a timer of the execution, so nothing has changed
	Cost       Cost   `json:"cost,omitzero"`

	DeadLetter *DeadLetter `json:"deadLetter,omitempty"` // only record that this message of the execution was dead-lettered

	DueAt       time.Time `json:"-"` // when the timer that sent it was due; zero for other wake-ups
	Redelivered bool      `json:"-"` // the queue has delivered it before without a deletion
}

// Merge adds the content of another message for the same execution and lane, so that one call can
// handle both. The reason stays.
func (w *Wakeup) Merge(other Wakeup) {
	w.Cost.Add(other.Cost)
	w.FromParent = w.FromParent || other.FromParent
	w.OfTimer = w.OfTimer && other.OfTimer
	w.Redelivered = w.Redelivered || other.Redelivered
	w.StepRunSeq = cmp.Or(w.StepRunSeq, other.StepRunSeq)
	w.Children = slices.Concat(w.Children, other.Children)
	slices.Sort(w.Children)
	w.Children = slices.Compact(w.Children)
}

// DeadLetter describes a message that its queue moved to the dead-letter queue, where it
// keeps its id.
type DeadLetter struct {
	MessageID    string   `json:"messageId"`
	Queue        string   `json:"queue"` // lifecycle, or jobs-<pool>
	Pack         *PackKey `json:"pack,omitempty"`
	Step         string   `json:"step,omitempty"`
	Reason       string   `json:"reason"`
	ReceiveCount int      `json:"receiveCount"`

	// Provisional is set by a worker that begins the last receive of a message, in case it crashes.
	// It is void if the pack's item exists when it is read: then a worker has claimed the pack, and
	// the item says how that ended.
	Provisional bool `json:"provisional,omitempty"`
}

// Work is what all packs of a step run have in common.
type Work struct {
	Kind       JobKind   `json:"kind"`
	Block      string    `json:"block"` // exact reference
	Step       string    `json:"step"`
	Pool       string    `json:"pool"`
	Pure       bool      `json:"pure,omitempty"`
	Idempotent bool      `json:"idempotent,omitempty"`
	Timeout    Duration  `json:"timeout"` // for one attempt of one job
	HTTP       *Endpoint `json:"http,omitempty"`
	Retry      *Retry    `json:"retry,omitempty"`
	Lanes      int       `json:"lanes"` // number of lanes of the step run

	// Pace is how often a job of the step run starts; PacedFrom is when the first may start. Pace
	// is zero if there is none.
	Pace      Rate      `json:"pace,omitzero"`
	PacedFrom time.Time `json:"pacedFrom,omitzero"`

	// EngineDriven means that only the engine can decide what follows a lane, because the step run
	// belongs to a pipeline or its retry policy has a condition. The worker that finishes a pack
	// then reports the lane to the engine.
	EngineDriven bool `json:"engineDriven,omitempty"`

	// FailuresDecideNothing means that no number of failed jobs ends the step run before its last
	// lane is over. So the engine is not woken for a lane with failed jobs.
	FailuresDecideNothing bool `json:"failuresDecideNothing,omitempty"`

	// CannotWait means that the step cannot wait for what its block asks for: it has more than one
	// job, it repeats, or it waits for the answer to a callback.
	CannotWait bool `json:"cannotWait,omitempty"`

	// CannotGoTo means that the block cannot name the next step, because the step has more than one
	// job.
	CannotGoTo bool `json:"cannotGoTo,omitempty"`

	// Compensates means that the block is executed to undo the work of another one. It cannot wait,
	// and where the execution continues does not depend on it.
	Compensates bool `json:"compensates,omitempty"`

	ResultSchema json.RawMessage `json:"resultSchema,omitempty"` // schema of the block's result

	Secrets []SecretPlace `json:"secrets,omitempty"` // where the parameters of all jobs hold secrets
	Sealed  *Sealed       `json:"sealed,omitempty"`  // the sealed parameters of the execution, if some of these are such

	CorrelationID   string `json:"correlation,omitempty"`     // of the execution
	TraceParent     string `json:"trace,omitempty"`           // of the execution
	MinFencingToken int64  `json:"minFencingToken,omitempty"` // of the engine: a message with a lower value is from before the tables were restored
}

// Repeatable reports whether the jobs may be executed again.
func (w *Work) Repeatable() bool { return w.Pure || w.Idempotent }

// LaneNotBefore returns the earliest start of a lane's first attempt; zero for none.
func (w *Work) LaneNotBefore(lane int) time.Time { return w.Pace.At(w.PacedFrom, lane) }

// Decides reports whether the end of a lane may decide something about its step run, so that the
// engine must look. It may if it completes its done set, which then has done lanes. It may also if
// the lane was not successful, unless only failures are known and failures cannot end the step run.
func (w *Work) Decides(end LaneResult, lane, done int) bool {
	shard := lane / LanesPerShard
	failures := end.Failures
	counts := !w.FailuresDecideNothing || failures.Failed == 0 || failures.Unknown > 0
	return end.Unsuccessful && counts || done >= LanesOfShard(w.Lanes, shard)
}

// MaxAttempts returns how often one job is tried.
func (w *Work) MaxAttempts() int {
	if w.Retry == nil {
		return 1
	}
	return 1 + w.Retry.MaxRetries
}

// PackMessage carries one pack to the workers of a pool. Everything in it is immutable, so
// duplicates do no harm.
//
// Chain holds the lanes that follow in the same slot of the window. The worker that finishes this
// pack sends the next one, so that the window moves without the engine and without stored inputs.
// If the chain was cut because of its size, ChainCut is the next lane, and the engine sends it when
// the worker reports this one.
type PackMessage struct {
	Key          PackKey     `json:"key"`
	Work         Work        `json:"work"`
	Jobs         []JobInput  `json:"jobs,omitempty"`
	JobsRef      *PayloadRef `json:"jobsRef,omitempty"`      // where the jobs are, if they are too large for a message
	Unsuccessful bool        `json:"unsuccessful,omitempty"` // an earlier attempt left an unsuccessful job that is not tried again
	Failures     JobFailures `json:"failures,omitzero"`      // failures of earlier attempts that are not tried again
	HasUpdates   bool        `json:"updates,omitempty"`      // a job of an earlier attempt requests entity updates
	NotBefore    time.Time   `json:"notBefore,omitzero"`
	NotAfter     time.Time   `json:"notAfter"`
	SentAt       time.Time   `json:"sentAt,omitzero"` // or when it may be begun, if that is later: about its place in the queue
	Chain        []LaneJobs  `json:"chain,omitempty"`
	ChainCut     int         `json:"chainCut,omitempty"` // 0 for none: the engine always sends lane 0
	Cost         Cost        `json:"cost,omitzero"`      // consumed before sending, not yet recorded

	// HoldsToken means that a job has a callback token in its parameters. So the message must not
	// be stored as it is.
	HoldsToken bool `json:"holdsToken,omitempty"`
}

// MarkSent sets when the message is sent.
func (m *PackMessage) MarkSent(now time.Time) {
	if m.SentAt = now; m.NotBefore.After(now) {
		m.SentAt = m.NotBefore
	}
}

// PoolMark says that a worker of a pool has worked on a message of a long queue.
type PoolMark struct {
	At        time.Time // when the pack was finished, or the claim of it renewed
	SentAt    time.Time // of the message
	Execution string    // whose step run the message is of
	StepRun   int
}

// LaneJobs is a later lane of a chain, with its jobs.
type LaneJobs struct {
	Lane int        `json:"l"`
	Jobs []JobInput `json:"jobs"`
}

// MaxMessageJobBytes is about how many bytes of jobs a message carries.
const MaxMessageJobBytes = 512 << 10

// OffloadPayload returns the message in a form that fits its queue. A chain that is too large is
// left to the engine. Jobs that are too large are stored in items of their own by save. The message
// itself does not change, because others may hold it.
func (m *PackMessage) OffloadPayload(save func(key PackKey, data []byte) (PayloadRef, error)) (*PackMessage, error) {
	jobBytes, chainBytes := estimateBytes(m.Jobs), 0
	for i := range m.Chain {
		chainBytes += estimateBytes(m.Chain[i].Jobs)
	}
	if jobBytes+chainBytes <= MaxMessageJobBytes {
		return m, nil
	}
	next := *m
	if len(m.Chain) > 0 {
		next.ChainCut, next.Chain = m.Chain[0].Lane, nil
	}
	if jobBytes <= MaxMessageJobBytes {
		return &next, nil
	}
	if m.HoldsToken {
		if next.Jobs = withoutCheckpoints(m.Jobs); estimateBytes(next.Jobs) <= MaxMessageJobBytes {
			return &next, nil
		}
		return nil, Errorf(CodeInternal, "the jobs of pack %s hold a token and are not stored", m.Key) // a plan with such parameters fails earlier
	}
	data, err := EncodeJSON(m.Jobs)
	if err != nil {
		return nil, Errorf(CodeInternal, "encode the jobs of pack %s: %w", m.Key, err)
	}
	stored, err := save(m.Key, data)
	if err != nil {
		return nil, err
	}
	next.Jobs, next.JobsRef = nil, stored.InPack(m.Key)
	return &next, nil
}

// LoadPayload returns the message with its jobs. If they are stored separately, load reads them.
func (m *PackMessage) LoadPayload(load func(key PackKey, s PayloadRef) ([]byte, error)) (*PackMessage, error) {
	if m.JobsRef == nil || m.JobsRef.Pack == nil {
		return m, nil
	}
	data, err := load(*m.JobsRef.Pack, *m.JobsRef)
	if err != nil {
		return nil, err
	}
	next := *m
	next.JobsRef = nil
	if err := json.Unmarshal(data, &next.Jobs); err != nil {
		return nil, Errorf(CodeInternal, "decode the jobs of pack %s: %w", m.Key, err)
	}
	return &next, nil
}

// estimateBytes returns about how many bytes the jobs take in a message.
func estimateBytes(jobs []JobInput) (n int) {
	for i := range jobs {
		n += 200 + jobs[i].Checkpoints.Bytes() + len(jobs[i].Resume) + len(jobs[i].Attributes) + len(jobs[i].Parameters) + len(jobs[i].Result)
	}
	return n
}

// withoutCheckpoints returns the jobs as for a first attempt.
func withoutCheckpoints(jobs []JobInput) []JobInput {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Checkpoints = nil
	}
	return jobs
}

// ExpiredAt reports whether no worker may begin the message any more: at the given time or, if
// later, at the earliest time when it may begin.
func (m *PackMessage) ExpiredAt(now time.Time) bool {
	return now.After(m.NotAfter) || m.NotBefore.After(m.NotAfter)
}

// NextLane returns the message of the next lane of the chain; nil at the end of the chain.
func (m *PackMessage) NextLane() *PackMessage {
	if len(m.Chain) == 0 {
		return nil
	}
	key := m.Key
	key.Lane, key.PipelinePos, key.Attempt = m.Chain[0].Lane, 0, 1
	return &PackMessage{Key: key, Work: m.Work, Jobs: m.Chain[0].Jobs, NotBefore: m.Work.LaneNotBefore(key.Lane), NotAfter: m.NotAfter, Chain: m.Chain[1:], ChainCut: m.ChainCut}
}

// NextAttempt returns the message of the next attempt, with the jobs at the given indexes. It keeps
// the chain, because the lane is not over yet.
func (m *PackMessage) NextAttempt(indexes []int, notBefore time.Time) *PackMessage {
	next := *m
	next.Key.Attempt++
	next.NotBefore = notBefore
	next.Cost = Cost{}
	next.Jobs = nil
	for _, j := range m.Jobs {
		for _, i := range indexes {
			if j.Index == i {
				next.Jobs = append(next.Jobs, j)
			}
		}
	}
	return &next
}
