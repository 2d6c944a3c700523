package workflow

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// End is one end of an execution, as it is counted: an execution that is retried has several.
type End struct {
	Workflow  Ref // with its version
	Execution string
	Sequence  int64 // of the event
	At        time.Time
	State     statemachines.ExecutionState // COMPLETED, FAILED_SAFE, FAILED_UNSAFE or CANCELLED
	Partial   bool                         // it completed, and not everything succeeded
	Took      time.Duration                // since it was created, or retried
}

// EndKind is a kind of ends, as definitions name them.
type EndKind string

// The kinds of ends.
const (
	EndCompleted EndKind = "completed"
	EndFailed    EndKind = "failed" // safely or unsafely
	EndCancelled EndKind = "cancelled"
)

// EndKinds lists the kinds of ends.
var EndKinds = []EndKind{EndCompleted, EndFailed, EndCancelled}

// EndKindOf returns the kind of end that a state is; "" for a state that is no end, or only the
// acknowledgement of one.
func EndKindOf(state statemachines.ExecutionState) EndKind {
	switch state {
	case statemachines.ExecutionCompleted:
		return EndCompleted
	case statemachines.ExecutionFailedSafe, statemachines.ExecutionFailedUnsafe:
		return EndFailed
	case statemachines.ExecutionCancelled:
		return EndCancelled
	}
	return ""
}

// FollowUpOf is the execution one of whose events has started another.
type FollowUpOf struct {
	Execution string `json:"execution"`
	Depth     int    `json:"depth"` // how many executions have started each other before this one
}

// FollowUpID returns the id of the execution that the end of a try starts: the same whoever starts
// it, so that it is started once.
func FollowUpID(execution string, endedAt time.Time, try int) string {
	return DerivedID(endedAt, fmt.Sprintf("%s.end.%d", execution, try))
}

// ID names an end among those of a day. Those of one workflow begin with its name and a colon.
func (e *End) ID() string { return fmt.Sprintf("%s#%s.%d", e.Workflow, e.Execution, e.Sequence) }

// EndDay is the day, in UTC, to which what ends at a time belongs.
func EndDay(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Bounds of the counted ends.
const (
	EndRetention   = 100 * 24 * time.Hour // how long an end is kept
	MaxMetricsDays = 92                   // days of one summary
)

// DurationBounds are the upper bounds, in seconds, of the durations that a summary counts together. What
// takes longer than the last is counted, too.
func DurationBounds() []int64 {
	const minute, hour, day = 60, 3600, 86400
	return []int64{1, 5, 15, minute, 5 * minute, 15 * minute, hour, 4 * hour, 12 * hour, day, 7 * day}
}
