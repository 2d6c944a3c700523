package workflow

import (
	"encoding/json"
	"time"
)

// Wakeup is the whole of a lifecycle message: look at this execution. It carries
// no state; Cost is what the sender consumed on the run's behalf and could not
// write down anywhere else.
type Wakeup struct {
	Tenant     string `json:"tenant"`
	Execution  string `json:"execution"`
	Reason     string `json:"reason,omitempty"`     // for logs
	Lane       *int   `json:"lane,omitempty"`       // a lane whose successor the engine has to send
	StepRunSeq int    `json:"stepRunSeq,omitempty"` // of the step run the lane belongs to
	Cost       Cost   `json:"cost,omitzero"`

	DeadLetter *DeadLetter `json:"deadLetter,omitempty"` // only write down that this message of the run has died

	DueAt time.Time `json:"-"` // of an alarm that has rung, when it was to
}

// Work is what all packs of a step run have in common.
type Work struct {
	Kind       JobKind   `json:"kind"`
	Block      string    `json:"block"` // exact reference
	Step       string    `json:"step"`
	Pool       string    `json:"pool"`
	Pure       bool      `json:"pure,omitempty"`
	Idempotent bool      `json:"idempotent,omitempty"`
	Timeout    Duration  `json:"timeout"` // one attempt of one job
	HTTP       *Endpoint `json:"http,omitempty"`
	Retry      *Retry    `json:"retry,omitempty"`
	Lanes      int       `json:"lanes"` // of the run

	// EngineDriven says that only the engine can say what follows a lane: its run is one
	// of a stretch of pipelines, or its retry policy has a condition. Whoever
	// finishes a pack then names the lane to the engine.
	EngineDriven bool `json:"engineDriven,omitempty"`

	ResultSchema json.RawMessage `json:"resultSchema,omitempty"` // of the block's result

	CorrelationID   string `json:"correlation,omitempty"`     // the run's
	TraceParent     string `json:"trace,omitempty"`           // the run's
	MinFencingToken int64  `json:"minFencingToken,omitempty"` // of tokens: a message of a lower one is from before tables were restored
}

// Repeatable reports whether the jobs may run again.
func (w *Work) Repeatable() bool { return w.Pure || w.Idempotent }

// MaxAttempts is how often one job is tried.
func (w *Work) MaxAttempts() int {
	if w.Retry == nil {
		return 1
	}
	return 1 + w.Retry.MaxRetries
}

// PackMessage offers one pack to the workers of a pool. Everything in it is
// immutable: any number of copies say the same.
//
// Chain holds the lanes that follow in the same slot of the window. Whoever
// finishes this pack sends them on, so that the window moves without the engine
// and without stored inputs. Where the chain was cut for size, ChainCut is the
// next lane, and the engine sends it when told.
type PackMessage struct {
	Key          PackKey     `json:"key"`
	Work         Work        `json:"work"`
	Jobs         []JobInput  `json:"jobs,omitempty"`
	JobsRef      *PayloadRef `json:"jobsRef,omitempty"`      // where the jobs are, if they are too large for a message
	Unsuccessful bool        `json:"unsuccessful,omitempty"` // an earlier attempt left a job without success that is not tried again
	HasUpdates   bool        `json:"updates,omitempty"`      // a job of an earlier attempt asks for updates of entities
	NotBefore    time.Time   `json:"notBefore,omitzero"`
	NotAfter     time.Time   `json:"notAfter"`
	Chain        []LaneJobs  `json:"chain,omitempty"`
	ChainCut     int         `json:"chainCut,omitempty"` // 0 none: lane 0 is always sent by the engine
	Cost         Cost        `json:"cost,omitzero"`      // consumed before sending, not yet written down
}

// LaneRange is one lane further down a chain.
type LaneJobs struct {
	Lane int        `json:"l"`
	Jobs []JobInput `json:"jobs"`
}

// MaxMessageJobBytes is about how many bytes of jobs a message carries.
const MaxMessageJobBytes = 512 << 10

// OffloadPayload makes the message fit its queue: a chain that is too large is left to the
// engine, and jobs that are too large are stored beside the pack by save. The
// message itself, which others may hold, stays as it is.
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
	data, err := json.Marshal(m.Jobs)
	if err != nil {
		return nil, Errorf(CodeInternal, "the jobs of pack %s cannot be stored: %w", m.Key, err)
	}
	stored, err := save(m.Key, data)
	if err != nil {
		return nil, err
	}
	next.Jobs, next.JobsRef = nil, stored.InPack(m.Key)
	return &next, nil
}

// LoadPayload is the message with its jobs, wherever they are.
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
		return nil, Errorf(CodeInternal, "the jobs of pack %s cannot be read: %w", m.Key, err)
	}
	return &next, nil
}

// estimateBytes is about how many bytes jobs take in a message.
func estimateBytes(jobs []JobInput) (n int) {
	for i := range jobs {
		n += 200 + len(jobs[i].Attributes) + len(jobs[i].Parameters) + len(jobs[i].Result)
	}
	return n
}

// NextLane is the message of the next lane of the chain, or nil at its end.
func (m *PackMessage) NextLane() *PackMessage {
	if len(m.Chain) == 0 {
		return nil
	}
	key := m.Key
	key.Lane, key.PipelinePos, key.Attempt = m.Chain[0].Lane, 0, 1
	return &PackMessage{Key: key, Work: m.Work, Jobs: m.Chain[0].Jobs, NotAfter: m.NotAfter, Chain: m.Chain[1:], ChainCut: m.ChainCut}
}

// NextAttempt is the message of the next attempt, for the given job indexes. It
// keeps the chain: the lane is not over yet.
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

// Update asks for a change of an entity's attributes; it is applied when the
// run completes, if the run holds the entity.
type Update struct {
	Entity EntityKey                  `json:"entity"`
	Set    map[string]json.RawMessage `json:"set,omitempty"`
	Remove []string                   `json:"remove,omitempty"`
}
