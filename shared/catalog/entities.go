package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Limits of the inventory.
const (
	maxImportEntities = 10_000    // entities in one import: they are stored before the deadline, at 30 ms each, 16 at a time
	importChunk       = 500       // entities that an import stores before it checks the time again
	maxIssues         = 100       // issues reported for one import
	maxScanPages      = 20        // pages read for one filtered page
	maxScanCost       = 5_000_000 // cost of a query for one filtered page; after that the page is short
)

// PutEntity creates or updates an entity. Its attributes and groups are replaced.
func (c *Catalog) PutEntity(ctx context.Context, caller workflow.Caller, e workflow.Entity) (workflow.Entity, error) {
	if err := workflow.Invalid("the entity is not valid", inventory.ValidateEntity(&e, "")); err != nil {
		return e, err
	}
	if err := c.storeEntities(ctx, ctx, caller.Tenant, []workflow.Entity{e}); err != nil {
		return e, err
	}
	return c.Entity(ctx, caller, e.Key())
}

// importTime bounds how long an import stores entities. A request on AWS ends after 29 s; the rest
// is for the cold start, the transfer, the validation before and the response.
const importTime = 18 * time.Second

// Entity returns one entity of the inventory.
func (c *Catalog) Entity(ctx context.Context, caller workflow.Caller, key workflow.EntityKey) (workflow.Entity, error) {
	found, err := c.openPorts().Registry.Entities(ctx, caller.Tenant, []workflow.EntityKey{key}, true)
	if err != nil {
		return workflow.Entity{}, err
	}
	e, ok := found[key]
	if !ok {
		return e, workflow.Errorf(workflow.CodeNotFound, "the inventory has no entity %s", key)
	}
	return e, nil
}

// Entities lists the entities of a type ordered by id: all of them, or those that are in one of the
// groups or match the query. A filtered page may be short. A query that cannot be evaluated for any
// entity is refused.
func (c *Catalog) Entities(ctx context.Context, caller workflow.Caller, sel workflow.Selector, p workflow.Page) (workflow.List[workflow.Entity], error) {
	var out workflow.List[workflow.Entity]
	p = clampPage(p)
	if !workflow.ValidID(sel.Type) {
		return out, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "type", Code: "required", Message: "name the entity type"}})
	}
	var query *expr.Selection
	if sel.Query != "" {
		compiled, err := expr.CompileQuery(sel.Query)
		if err != nil {
			return out, invalidQuery(err)
		}
		query = compiled.Select()
	}
	firstPage := p.Token == "" // only then can one call read all entities
	all := len(sel.Groups) == 0 && query == nil
	for range maxScanPages {
		list, err := c.openPorts().Registry.EntitiesOf(ctx, caller.Tenant, sel.Type, p)
		if err != nil {
			return out, err
		}
		for _, e := range list.Items {
			if err := ctx.Err(); err != nil {
				return out, &workflow.Error{Code: workflow.CodeUnavailable, Message: "the list of entities is incomplete; try again", Cause: err}
			}
			grouped := slices.ContainsFunc(e.Groups, func(g string) bool { return slices.Contains(sel.Groups, g) })
			if all || grouped || (query != nil && query.Match(e)) {
				out.Items = append(out.Items, e)
			}
		}
		out.NextToken, p.Token = list.NextToken, list.NextToken
		if list.NextToken == "" && firstPage && query != nil && query.Err() != nil {
			return out, invalidQuery(query.Err())
		}
		if list.NextToken == "" || len(out.Items) > 0 || query != nil && query.Cost() > maxScanCost {
			return out, nil
		}
	}
	return out, nil
}

// EntityTypes lists the types of all entities that exist or have existed.
func (c *Catalog) EntityTypes(ctx context.Context, caller workflow.Caller, p workflow.Page) (workflow.List[string], error) {
	return c.openPorts().Registry.EntityTypes(ctx, caller.Tenant, clampPage(p))
}

func invalidQuery(err error) error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "query", Code: "expression", Message: err.Error()}})
}

// ImportEntities creates or updates entities given as JSON lines. It merges each into the stored
// entity, or replaces that. All lines are checked before any is stored, and they are stored in
// order. The error names each wrong line. If time runs out first, it names the line to continue at.
func (c *Catalog) ImportEntities(ctx context.Context, caller workflow.Caller, r io.Reader, replace bool) (views.ImportResult, error) {
	var result views.ImportResult
	var entities []workflow.Entity
	var lines []int // of entities
	issues, err := inventory.ReadImport(r, maxIssues, func(line int, e workflow.Entity) error {
		if len(entities) >= maxImportEntities {
			return &workflow.Error{
				Code: workflow.CodeTooLarge, Message: fmt.Sprintf("one request imports at most %d entities; nothing was stored", maxImportEntities),
				Issues: []workflow.Issue{{Line: line, Code: "limit", Message: "cut the lines into several requests before this line, as \"lockstep entities import\" does"}},
			}
		}
		entities, lines = append(entities, e), append(lines, line)
		return nil
	})
	if err != nil {
		return result, err
	}
	message := "the import is not valid; nothing was stored"
	if len(issues) >= maxIssues {
		message += fmt.Sprintf("; these are the first %d mistakes", len(issues))
	}
	if err := workflow.Invalid(message, issues); err != nil {
		return result, err
	}
	writeCtx, cancel := withImportDeadline(ctx)
	defer cancel()
	for from := 0; from < len(entities); from += importChunk {
		to := min(from+importChunk, len(entities))
		written := to - from
		if replace {
			err = c.storeEntities(ctx, writeCtx, caller.Tenant, entities[from:to])
		} else {
			written, err = c.mergeEntities(ctx, writeCtx, caller.Tenant, entities[from:to], lines[from:to])
		}
		if err != nil {
			return result, importError(err, from, len(entities), lines[from])
		}
		result.Imported += to - from
		result.Unchanged += to - from - written
	}
	return result, nil
}

// importError returns why an import has stored only n of its entities, all of them before the given
// line.
func importError(err error, n, total, line int) error {
	if n == 0 {
		return err
	}
	partly := &workflow.Error{
		Code: workflow.CodeUnavailable, Message: fmt.Sprintf("%d of %d entities are stored: all before line %d", n, total, line), Cause: err,
		Issues: []workflow.Issue{{Line: line, Code: inventory.IssueNotStored, Message: "send the lines from here on again; to send stored ones again is harmless"}},
	}
	var invalid *workflow.Error
	if errors.As(err, &invalid) && invalid.Code == workflow.CodeInvalid {
		partly.Code, partly.Issues = invalid.Code, append(partly.Issues, invalid.Issues...)
	}
	return partly
}

// withImportDeadline bounds the writes of an import, so that there is time for a response before
// the request ends.
func withImportDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	left := importTime
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline)*4/5)
	}
	return context.WithTimeout(ctx, left)
}

// storeEntities stores entities until writeCtx ends, and wakes the executions that wait for a
// condition on them.
func (c *Catalog) storeEntities(ctx, writeCtx context.Context, tenant string, entities []workflow.Entity) error {
	ports := c.openPorts()
	watchers, err := ports.Registry.PutEntities(writeCtx, tenant, entities)
	ports.wake(ctx, tenant, watchers)
	return err
}

// wake wakes the executions that wait for a condition on a changed entity. If a wake-up is not
// sent, the execution's timer will retry.
func (p Ports) wake(ctx context.Context, tenant string, watchers []string) {
	wakeups := make([]workflow.Wakeup, len(watchers))
	for i, id := range watchers {
		wakeups[i] = workflow.Wakeup{Tenant: tenant, Execution: id, Reason: "an entity has changed"}
	}
	if len(wakeups) > 0 {
		_ = p.Sender.SendWakeups(ctx, 0, wakeups...)
	}
}
