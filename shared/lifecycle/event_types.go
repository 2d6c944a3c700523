package lifecycle

import (
	"slices"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// EventTypes returns the types of the events that the history of an execution can have, sorted.
func EventTypes() []string {
	types := []string{
		EventInputAnswered, EventInputReminded, EventInputEscalated, EventMessageDeadLettered, EventSignalReceived, EventSignalUnconsumed,
		EventOutputMissing, EventTokenIssued, EventTokenRevoked,
	}
	for _, m := range sm.Machines() {
		if m.Layer != sm.LayerExecution && m.Layer != sm.LayerWorkflow && m.Layer != sm.LayerStep {
			continue // the history of an execution does not name jobs
		}
		for _, row := range m.Rows {
			if row.RecordedAs != "" {
				types = append(types, string(row.RecordedAs))
			} else {
				types = append(types, string(row.On))
			}
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}
