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

// DueExecutions lists the executions of one shard whose alarm has rung, oldest first, from
// the index. A page's token is the index key of the last one of the page before.
func (s *Store) DueExecutions(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error) {
	from := int64(0)
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	if from > now.UnixMilli() {
		return workflow.List[workflow.Wakeup]{}, nil // DynamoDB refuses to look between what is later and what is earlier
	}
	index := topology.IndexDue
	limit := workflow.DefaultPageSize
	if page.Limit > 0 {
		limit = min(page.Limit, workflow.MaxPageSize)
	}
	after, err := dueStartKey(shard, page.Token)
	if err != nil {
		return workflow.List[workflow.Wakeup]{}, err
	}
	var list workflow.List[workflow.Wakeup]
	var last table.Item
	for it, err := range s.t.Query(ctx, table.Query{
		Index:        index.Name,
		KeyCondition: "#" + index.Partition + " = :shard AND #" + index.Sort + " BETWEEN :since AND :now",
		Values:       table.Item{"shard": table.S(strconv.Itoa(shard)), "since": table.N(from), "now": table.N(now.UnixMilli())},
		StartAfter:   after,
		PageSize:     limit + 1,
	}) {
		if err != nil {
			return workflow.List[workflow.Wakeup]{}, err
		}
		if len(list.Items) == limit {
			list.NextToken = encodeDueToken(last)
			break
		}
		tenant, id := parseExecutionKey(it.Key().PK)
		list.Items = append(list.Items, workflow.Wakeup{Tenant: tenant, Execution: id, Reason: "alarm", DueAt: table.FromMillis(it.Int(index.Sort))})
		last = it
	}
	return list, nil
}

func encodeDueToken(it table.Item) string {
	text := strconv.FormatInt(it.Int(topology.IndexDue.Sort), 10) + " " + it.Key().PK
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func dueStartKey(shard int, token string) (table.Item, error) {
	if token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	at, pk, ok := strings.Cut(string(text), " ")
	dueMillis, parseErr := strconv.ParseInt(at, 10, 64)
	if err != nil || parseErr != nil || !ok {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	after := table.Key{PK: pk, SK: skState}.Attributes()
	after[topology.IndexDue.Partition], after[topology.IndexDue.Sort] = table.S(strconv.Itoa(shard)), table.N(dueMillis)
	return after, nil
}

// ListByState lists ids in a state, newest first, from the index.
func (s *Store) ListByState(ctx context.Context, tenant string, state statemachines.ExecutionState, below string, limit int) ([]string, error) {
	index := topology.IndexByStatus
	shards := make([]table.Rows, topology.StatusShards)
	for n := range shards {
		q := table.Query{
			Index:        index.Name,
			KeyCondition: "#" + index.Partition + " = :state",
			Values:       table.Item{"state": table.S(statusKey(tenant, n, state))},
			Descending:   true,
			PageSize:     limit,
		}
		if below != "" {
			q.KeyCondition += " AND #" + index.Sort + " < :below"
			q.Values["below"] = table.S(below)
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
