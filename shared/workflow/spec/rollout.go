package spec

import (
	"strconv"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Rollout executes the embedded workflow of a step wave by wave: each wave with some of the
// entities, until all have had their turn.
type Rollout struct {
	By      string   `json:"by,omitempty"`      // CEL over an entity: one wave for each value
	Order   []string `json:"order,omitempty"`   // of By: the values that come first
	Batches []Share  `json:"batches,omitempty"` // cumulative; the rest makes one more wave

	Pause   workflow.Duration `json:"pause,omitempty"`   // between two waves
	Approve *WaitApproval     `json:"approve,omitempty"` // between two waves, too

	FailureTolerance *Tolerance    `json:"failureTolerance,omitempty"` // of one wave; nil means that of the definition
	OnFailure        OnWaveFailure `json:"onFailure,omitempty"`

	// Between is the step that is executed between two waves, none if there is neither Pause nor
	// Approve. It is made from these.
	Between []Step `json:"-"`
}

// Share is how many of the entities have had their turn after a wave: a count, or a percentage,
// rounded up.
type Share struct {
	Count   int
	Percent float64
}

func (s Share) String() string {
	if s.Percent > 0 {
		return strconv.FormatFloat(s.Percent, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(s.Count)
}

// OnWaveFailure is what happens when a wave has failed.
type OnWaveFailure string

// The choices; OnWaveFailureStop is the default.
const (
	OnWaveFailureStop        OnWaveFailure = "stop"        // it is undone, the waves before it stand, and no other begins
	OnWaveFailureRollbackAll OnWaveFailure = "rollbackAll" // the execution fails, and everything is undone
)

// Limits of rollouts.
const (
	MaxWaves        = 250 // of one rollout; its partition has a byte for each entity
	MaxWaveName     = 64  // bytes of the name of a wave
	betweenGroup    = "rollout.between"
	pauseSuffix     = "_pause"
	approvalSuffix  = "_approval"
	MaxRolloutLabel = 64 - len(approvalSuffix)
)

// SetBetween makes Between.
func (s *Step) SetBetween() {
	switch r := s.Rollout; {
	case r.Approve != nil:
		r.Between = []Step{{Label: s.Label + approvalSuffix, Wait: &Wait{Approval: r.Approve}}}
	case r.Pause > 0:
		r.Between = []Step{{Label: s.Label + pauseSuffix, Wait: &Wait{For: r.Pause}}}
	}
}

// StopsAtFailure reports whether a failed wave ends only the rollout.
func (s *Step) StopsAtFailure() bool { return s.Rollout != nil && s.Rollout.OnFailure == "" }

// RolloutAround returns the node with the rollout that executes a node in its waves, -1 for none.
func (p *Program) RolloutAround(node int) int {
	for at := p.Nodes[node].Parent; at >= 0; at = p.Nodes[at].Parent {
		if p.Nodes[at].Rollout != nil {
			return at
		}
	}
	return -1
}

// InWave reports whether a node is executed in the waves of a rollout, and not between them.
func (p *Program) InWave(rollout, node int) bool {
	between := p.Nodes[rollout].Between
	return p.Encloses(rollout, node) && (between == 0 || node < between)
}

// WaveTypes returns the types of entities on which the waves of a rollout have steps.
func (p *Program) WaveTypes(rollout int) map[string]bool {
	types := map[string]bool{}
	for i := rollout + 1; i < p.Nodes[rollout].End; i++ {
		if n := &p.Nodes[i]; n.OnEntities() && p.Encloses(rollout, i) {
			types[n.RunOn] = true
		}
	}
	return types
}
