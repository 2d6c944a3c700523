package definition

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func (c *Compiled) AcquireIDs(i int, p json.RawMessage) ([]string, error) { return nil, nil }
func (c *Compiled) ExpandIDs(i int, p json.RawMessage, e expr.Entity) ([]string, error) {
	return nil, nil
}
func (c *Compiled) AcquireParameters(i int, p json.RawMessage) (json.RawMessage, error) {
	return nil, nil
}
func (c *Compiled) Again(step int, s expr.Scope) (bool, error)         { return true, nil }
func (c *Compiled) On(step int, s expr.Scope) (json.RawMessage, error) { return nil, nil }
func (c *Compiled) HasRetryWhen(step int) bool                         { return false }
func (c *Compiled) RetryWhen(step int, attempt int, f *workflow.Failure) (bool, error) {
	return false, nil
}
