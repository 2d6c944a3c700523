package definitions

import (
	"encoding/json"
	"time"
)

// StartWhen reports whether a run may begin, as package program has it.
func (d *Definition) StartWhen(parameters json.RawMessage, now time.Time, lookup func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	return d.compiled.StartWhen(parameters, now, lookup)
}

// NotBefore is the time before which a run does not begin; zero for none.
func (d *Definition) NotBefore(parameters json.RawMessage) (time.Time, error) {
	return d.compiled.NotBefore(parameters)
}
