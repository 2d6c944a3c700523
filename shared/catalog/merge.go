package catalog

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxMergeRounds bounds how often entities are read again because somebody else has written them.
const maxMergeRounds = 8

// mergeEntities merges entities into what is stored until writeCtx ends, and wakes the executions
// that wait for a condition on them. It returns how many it has written: an unchanged entity costs
// no write. If a write has lost to another one, it reads the entity again and merges into that.
// lines are the line numbers of the entities.
func (c *Catalog) mergeEntities(ctx, writeCtx context.Context, tenant string, entities []workflow.Entity, lines []int) (written int, err error) {
	ports := c.openPorts()
	changed := map[workflow.EntityKey]bool{}
	left := make([]int, len(entities))
	for i := range left {
		left[i] = i
	}
	for range maxMergeRounds {
		keys := make([]workflow.EntityKey, len(left))
		for n, i := range left {
			keys[n] = entities[i].Key()
		}
		stored, err := ports.Registry.Entities(writeCtx, tenant, keys, true)
		if err != nil {
			return len(changed), err
		}
		var writes []workflow.EntityWrite
		var of []int // the position in entities of each write
		var issues []workflow.Issue
		for _, i := range left {
			old, exists := stored[entities[i].Key()]
			next, differs := entities[i], true
			if exists {
				next, differs = inventory.Merge(old, entities[i])
			}
			switch {
			case !differs:
			case len(next.Attributes) > workflow.MaxAttributesBytes:
				issues = append(issues, workflow.Issue{Line: lines[i], Path: "attributes", Code: "too_large",
					Message: fmt.Sprintf("%s would have attributes of more than %d bytes, together with those that are stored", next.Key(), workflow.MaxAttributesBytes)})
			default:
				writes, of = append(writes, workflow.EntityWrite{Entity: next, SeenVersion: old.Version}), append(of, i)
			}
		}
		if err := workflow.Invalid("the import cannot be merged into the inventory", issues); err != nil {
			return len(changed), err
		}
		if len(writes) == 0 {
			return len(changed), nil
		}
		ok, watchers, err := ports.Registry.WriteEntities(writeCtx, tenant, writes)
		ports.wake(ctx, tenant, watchers)
		if err != nil {
			return len(changed), err
		}
		left = left[:0]
		for n, i := range of {
			if changed[entities[i].Key()] = true; !ok[n] {
				left = append(left, i)
			}
		}
		if len(left) == 0 {
			return len(changed), nil
		}
	}
	return len(changed), workflow.Errorf(workflow.CodeUnavailable, "%s and %d other entities are being changed by other requests: try again", entities[left[0]].Key(), len(left)-1)
}
