package dynamo

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Attributes of an end.
const (
	attrEndState   = "end"
	attrEndPartial = "part"
	attrEndTook    = "ms"
)

// The ends of a day are a partition: an item each, so that one that is stored again is not counted twice.
func endsKey(tenant, day, id string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "stat#" + day, SK: id}
}

// PutEnd stores an end unless it is stored.
func (r *Registry) PutEnd(ctx context.Context, tenant string, e workflow.End) error {
	it := endsKey(tenant, workflow.EndDay(e.At), e.ID()).Attributes()
	it[attrEndState], it[attrEndTook] = table.S(string(e.State)), table.N(e.Took.Milliseconds())
	it[topology.AttrTTL] = table.N(e.At.Add(workflow.EndRetention).Unix())
	if e.Partial {
		it[attrEndPartial] = table.True()
	}
	_, _, err := r.t.Put(ctx, it, table.IfAbsent, nil)
	return err
}

// Ends lists the ends of a day, those of one workflow or of all, in order of their ids. It may miss the
// last second.
func (r *Registry) Ends(ctx context.Context, tenant, day, fullName string, page workflow.Page) (list workflow.List[workflow.End], err error) {
	after, err := decodePageToken(page)
	if err != nil {
		return list, err
	}
	q := partitionQuery(endsKey(tenant, day, "").PK, after, pageLimit(page))
	q.Consistent = false
	if fullName != "" {
		q.KeyCondition += " AND begins_with(#sk, :workflow)"
		q.Values["workflow"] = table.S(fullName + ":")
	}
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return list, workflow.Errorf(workflow.CodeInternal, "%q is no day", day)
	}
	return collectPage(r.t.Query(ctx, q), pageLimit(page), func(it table.Item) (workflow.End, error) { return endOf(it, at) })
}

// endOf reads an end of a day. Of its time it has the day.
func endOf(it table.Item, day time.Time) (e workflow.End, err error) {
	id := it.Key().SK
	name, execution, _ := strings.Cut(id, "#")
	execution, sequence, _ := strings.Cut(execution, ".")
	if e.Workflow, err = workflow.ParseRef(name); err == nil {
		e.Sequence, err = strconv.ParseInt(sequence, 10, 64)
	}
	if err != nil {
		return e, workflow.Errorf(workflow.CodeInternal, "%q is not the id of an end: %w", id, err)
	}
	e.Execution, e.At = execution, day
	e.State, e.Partial = statemachines.ExecutionState(it.Text(attrEndState)), it.Has(attrEndPartial)
	e.Took = time.Duration(it.Int(attrEndTook)) * time.Millisecond
	return e, nil
}
