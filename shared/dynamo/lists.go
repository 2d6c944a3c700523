package dynamo

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Due lists the executions of one shard whose alarm has rung, oldest first, from
// the index. A page's token is the index key of the last one of the page before.
func (s *Store) Due(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Look], error) {
	from := int64(0)
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	if from > now.UnixMilli() {
		return workflow.List[workflow.Look]{}, nil // DynamoDB refuses to look between what is later and what is earlier
	}
	index := topology.IndexDue
	limit := workflow.DefaultPage
	if page.Limit > 0 {
		limit = min(page.Limit, workflow.MaxPage)
	}
	after, err := dueAfter(shard, page.Token)
	if err != nil {
		return workflow.List[workflow.Look]{}, err
	}
	var list workflow.List[workflow.Look]
	var last table.Item
	for it, err := range s.t.Query(ctx, table.Query{
		Index: index.Name,
		Key:   "#" + index.Partition + " = :shard AND #" + index.Sort + " BETWEEN :since AND :now",
		With:  table.Item{"shard": table.S(strconv.Itoa(shard)), "since": table.N(from), "now": table.N(now.UnixMilli())},
		After: after,
		Page:  limit + 1,
	}) {
		if err != nil {
			return workflow.List[workflow.Look]{}, err
		}
		if len(list.Items) == limit {
			list.Next = dueToken(last)
			break
		}
		tenant, id := splitExecution(it.Key().PK)
		list.Items = append(list.Items, workflow.Look{Tenant: tenant, Execution: id, Why: "alarm", DueAt: table.At(it.Int(index.Sort))})
		last = it
	}
	return list, nil
}

func dueToken(it table.Item) string {
	text := strconv.FormatInt(it.Int(topology.IndexDue.Sort), 10) + " " + it.Key().PK
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func dueAfter(shard int, token string) (table.Item, error) {
	if token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	at, pk, ok := strings.Cut(string(text), " ")
	rings, bad := strconv.ParseInt(at, 10, 64)
	if err != nil || bad != nil || !ok {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	after := table.Key{PK: pk, SK: skState}.Attributes()
	after[topology.IndexDue.Partition], after[topology.IndexDue.Sort] = table.S(strconv.Itoa(shard)), table.N(rings)
	return after, nil
}

// Listed lists ids in a state, newest first, from the index.
func (s *Store) Listed(ctx context.Context, tenant string, state statemachines.ExecutionState, below string, limit int) ([]string, error) {
	index := topology.IndexByStatus
	shards := make([]table.Rows, topology.StatusShards)
	for n := range shards {
		q := table.Query{
			Index:    index.Name,
			Key:      "#" + index.Partition + " = :state",
			With:     table.Item{"state": table.S(statusKey(tenant, n, state))},
			Backward: true,
			Page:     limit,
		}
		if below != "" {
			q.Key += " AND #" + index.Sort + " < :below"
			q.With["below"] = table.S(below)
		}
		shards[n] = s.t.Query(ctx, q)
	}
	newer := func(a, b table.Item) bool { return a.Text(index.Sort) > b.Text(index.Sort) }
	var ids []string
	for it, err := range table.Merge(ctx, newer, shards) {
		if err != nil {
			return nil, err
		}
		if len(ids) == limit {
			break
		}
		ids = append(ids, it.Text(index.Sort))
	}
	return ids, nil
}
