package spec

import "encoding/json"

// Insert is a row that a step puts into a table. Its values, by column, are the parameters of the
// step.
type Insert struct {
	Table string `json:"table"`
}

// ByEngine reports whether the engine itself does what the step says: no block is called, and no
// execution started.
func (s *Step) ByEngine() bool { return s.Insert != nil || s.Schedule != nil }

// ScheduleStep is a schedule that a step makes, or removes. Its name, its cron, its zone and the parameters of what
// it starts are the parameters of the step, as [ScheduleParameters].
type ScheduleStep struct {
	Workflow    string `json:"workflow"`              // reference, of what it starts
	Concurrency bool   `json:"concurrency,omitempty"` // start even if an earlier execution has not ended
	Replace     bool   `json:"replace,omitempty"`     // also one that another execution has made
	Remove      bool   `json:"remove,omitempty"`
}

// ScheduleParameters are what of a schedule is evaluated.
type ScheduleParameters struct {
	Name       string          `json:"name"`
	Cron       string          `json:"cron,omitempty"`
	Zone       string          `json:"zone,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}
