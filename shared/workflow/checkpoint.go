package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Checkpoints are what a job has saved in order to continue from there: JSON values, by key.
type Checkpoints map[string]json.RawMessage

// Bounds of checkpoints. Their size includes keys and values.
const (
	MaxCheckpointBytes     = 64 << 10  // for one job
	MaxPackCheckpointBytes = 128 << 10 // for all jobs of a pack
	MaxCheckpoints         = 100       // for one job
	MaxCheckpointKeyBytes  = 128
)

// Bytes returns the size of the checkpoints in bytes.
func (c Checkpoints) Bytes() (n int) {
	for key, value := range c {
		n += len(key) + len(value)
	}
	return n
}

// With returns the checkpoints with more added. An entry in more replaces one with the same key; a
// null removes it.
func (c Checkpoints) With(more Checkpoints) (Checkpoints, error) {
	all := maps.Clone(c)
	if all == nil {
		all = Checkpoints{}
	}
	for key, value := range more {
		if key == "" || len(key) > MaxCheckpointKeyBytes {
			return nil, Errorf(CodeInvalid, "the key of a checkpoint has %d bytes: want 1 to %d", len(key), MaxCheckpointKeyBytes)
		}
		if len(value) == 0 || string(value) == "null" {
			delete(all, key)
			continue
		}
		all[key] = value
	}
	if len(all) > MaxCheckpoints {
		return nil, Errorf(CodeTooLarge, "a job has %d checkpoints, the limit is %d: save under the same key again, or remove some", len(all), MaxCheckpoints)
	}
	if n := all.Bytes(); n > MaxCheckpointBytes {
		return nil, Errorf(CodeTooLarge, "the checkpoints of a job have %d bytes, the limit is %d: save where the job is, not what it has made", n, MaxCheckpointBytes)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// JobProgress is the progress that a job reports.
type JobProgress struct {
	Percent float64   `json:"percent"` // 0 to 100
	Message string    `json:"message"`
	At      time.Time `json:"at"` // when it was reported
}

// maxProgressMessage is the longest message of a progress, in bytes.
const maxProgressMessage = 200

// NewJobProgress returns a progress, cut to its bounds.
func NewJobProgress(percent float64, message string, at time.Time) *JobProgress {
	if math.IsNaN(percent) {
		percent = 0
	}
	percent = math.Round(min(max(percent, 0), 100)*10) / 10
	return &JobProgress{Percent: percent, Message: Truncate(message, maxProgressMessage), At: at.UTC().Truncate(time.Millisecond)}
}

// CheckpointsFit returns why the job at a position in the pack cannot have these checkpoints; nil
// if it can.
func (p *Pack) CheckpointsFit(at int, of Checkpoints) error {
	total := of.Bytes()
	for i := range p.Jobs {
		if i != at {
			total += p.Jobs[i].Checkpoints.Bytes()
		}
	}
	if total > MaxPackCheckpointBytes {
		return Errorf(CodeTooLarge, "the checkpoints of the %d jobs of a pack have %d bytes, the limit is %d: save less, or use smaller packs (maxInFlight, pack.size)", len(p.Jobs), total, MaxPackCheckpointBytes)
	}
	return nil
}

// HasCheckpoints reports whether a job of the pack has saved a checkpoint.
func (p *Pack) HasCheckpoints() bool {
	if p == nil {
		return false
	}
	for i := range p.Jobs {
		if len(p.Jobs[i].Checkpoints) > 0 {
			return true
		}
	}
	return false
}

// HasCheckpoints reports whether a job of the message receives checkpoints from an earlier attempt.
func (m *PackMessage) HasCheckpoints() bool {
	return slices.ContainsFunc(m.Jobs, func(j JobInput) bool { return len(j.Checkpoints) > 0 })
}

// ContinueFrom gives the jobs of the next attempt the checkpoints of the previous one.
func (m *PackMessage) ContinueFrom(before *Pack) {
	for n := range m.Jobs {
		m.Jobs[n].Checkpoints = nil
		for i := range before.Jobs {
			if before.Jobs[i].Index == m.Jobs[n].Index && !m.Work.Retry.StartsFresh() {
				m.Jobs[n].Checkpoints = before.Jobs[i].Checkpoints
			}
		}
	}
}

// StartsFresh reports whether the next attempt receives no checkpoints from the previous one.
func (r *Retry) StartsFresh() bool { return r != nil && r.Fresh }

// String formats the progress for people.
func (p *JobProgress) String() string {
	text := fmt.Sprintf("%.0f %%", p.Percent)
	if p.Message != "" {
		text += " " + p.Message
	}
	return text
}
