package dynamo

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Workers keeps the polling workers.
type Workers struct{ t *table.Table }

// newWorkers opens them in the jobs table.
func newWorkers(t *table.Table) *Workers { return &Workers{t} }

// Attributes of a worker's item.
const (
	attrWorkerState    = "state"
	attrLastHeartbeat  = "heard"
	attrHeldPacks      = "held"
	attrWorkerDocument = "doc"
)

const workersPartition = "workers"

// removedWorkerTTL is how long an item outlives its worker: who still reads an index that
// lags behind finds that it is gone.
const removedWorkerTTL = time.Hour

func workerKey(tenant, id string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + workersPartition, SK: id}
}

func workerDueShard(tenant, id string) string {
	h := fnv.New32a()
	h.Write([]byte(tenant + "#" + id))
	return strconv.Itoa(int(h.Sum32() % topology.DueShards))
}

// Worker is a strongly consistent read; nil if absent.
func (w *Workers) Worker(ctx context.Context, tenant, id string) (*workflow.Worker, error) {
	it, err := w.t.Get(ctx, workerKey(tenant, id))
	if err != nil || it == nil {
		return nil, err
	}
	return workerOf(it)
}

// Workers lists a tenant's workers in order of id.
func (w *Workers) Workers(ctx context.Context, tenant string, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	limit := workflow.DefaultPageSize
	if page.Limit > 0 {
		limit = min(page.Limit, workflow.MaxPageSize)
	}
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil || len(after) > 1024 {
		return list, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	q := table.Query{KeyCondition: "#pk = :pk", Values: table.Item{"pk": table.S(workerKey(tenant, "").PK)}, Consistent: true, PageSize: limit + 1}
	if len(after) > 0 {
		q.StartAfter = workerKey(tenant, string(after)).Attributes()
	}
	for it, err := range w.t.Query(ctx, q) {
		if err != nil {
			return workflow.List[workflow.Worker]{}, err
		}
		if it.Text(attrWorkerState) == string(statemachines.WorkerRemoved) {
			continue
		}
		if len(list.Items) == limit {
			list.NextToken = base64.RawURLEncoding.EncodeToString([]byte(list.Items[limit-1].ID))
			break
		}
		one, err := workerOf(it)
		if err != nil {
			return workflow.List[workflow.Worker]{}, err
		}
		list.Items = append(list.Items, *one)
	}
	return list, nil
}

// PutWorker replaces seen by next.
func (w *Workers) PutWorker(ctx context.Context, seen, next *workflow.Worker) (bool, error) {
	doc, err := encodeWorker(next)
	if err != nil {
		return false, err
	}
	c := table.Update{
		Key: workerKey(next.Tenant, next.ID),
		Set: table.Item{
			attrWorkerState: table.S(string(next.State)), attrLastHeartbeat: table.N(table.Millis(next.LastSeenAt)), attrWorkerDocument: table.B(doc),
		},
		Condition: table.IfAbsent,
	}
	if seen != nil {
		c.Condition = "#state = :was AND #heard = :before"
		c.Values = table.Item{"was": table.S(string(seen.State)), "before": table.N(table.Millis(seen.LastSeenAt))}
	}
	due := topology.IndexWorkersDue
	if next.DueAt.IsZero() {
		c.Remove = append(c.Remove, due.Partition, due.Sort)
	} else {
		c.Set[due.Partition], c.Set[due.Sort] = table.S(workerDueShard(next.Tenant, next.ID)), table.N(table.Millis(next.DueAt))
	}
	if next.State == statemachines.WorkerRemoved {
		c.Set[topology.AttrTTL] = table.N(next.LastSeenAt.Add(removedWorkerTTL).Unix())
	} else {
		c.Remove = append(c.Remove, topology.AttrTTL)
	}
	if len(next.ClaimedPacks) == 0 {
		c.Remove = append(c.Remove, attrHeldPacks)
	}
	ok, _, err := w.t.Update(ctx, c)
	return ok, err
}

// Heartbeat writes the time of a heartbeat of a worker that is ONLINE.
func (w *Workers) Heartbeat(ctx context.Context, tenant, id string, at time.Time, held []workflow.ClaimedPack) (bool, *workflow.Worker, error) {
	c := table.Update{
		Key:       workerKey(tenant, id),
		Set:       table.Item{attrLastHeartbeat: table.N(table.Millis(at))},
		Condition: "#state = :online",
		Values:    table.Item{"online": table.S(string(statemachines.WorkerOnline))},
	}
	switch {
	case len(held) > 0:
		c.Set[attrHeldPacks] = heldPackSet(held...)
	case held != nil:
		c.Remove = []string{attrHeldPacks}
	}
	ok, oldItem, err := w.t.Update(ctx, c)
	if ok || err != nil || oldItem == nil {
		return ok, nil, err
	}
	old, err := workerOf(oldItem)
	return false, old, err
}

// AddClaimedPack adds a pack to those that a worker holds.
func (w *Workers) AddClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error {
	_, _, err := w.t.Update(ctx, table.Update{
		Key: workerKey(tenant, id), Add: table.Item{attrHeldPacks: heldPackSet(pack)}, Condition: "attribute_exists(#pk)",
	})
	return err
}

// RemoveClaimedPack takes one away.
func (w *Workers) RemoveClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error {
	_, _, err := w.t.Update(ctx, table.Update{
		Key: workerKey(tenant, id), Delete: table.Item{attrHeldPacks: heldPackSet(pack)}, Condition: "attribute_exists(#pk)",
	})
	return err
}

func heldPackSet(held ...workflow.ClaimedPack) table.Value {
	texts := make([]string, len(held))
	for i, h := range held {
		texts[i] = string(h)
	}
	return &types.AttributeValueMemberSS{Value: texts}
}

// DueWorkers lists workers of one shard that have to be looked at by now. A page's
// token is the index key of the last one of the page before.
func (w *Workers) DueWorkers(ctx context.Context, shard int, now time.Time, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	index := topology.IndexWorkersDue
	limit := workflow.DefaultPageSize
	if page.Limit > 0 {
		limit = min(page.Limit, workflow.MaxPageSize)
	}
	after, err := workerDueStartKey(shard, page.Token)
	if err != nil {
		return list, err
	}
	var last table.Item
	for it, err := range w.t.Query(ctx, table.Query{
		Index:        index.Name,
		KeyCondition: "#" + index.Partition + " = :shard AND #" + index.Sort + " <= :now",
		Values:       table.Item{"shard": table.S(strconv.Itoa(shard)), "now": table.N(now.UnixMilli())},
		StartAfter:   after,
		PageSize:     limit + 1,
	}) {
		if err != nil {
			return workflow.List[workflow.Worker]{}, err
		}
		if len(list.Items) == limit {
			text := strconv.FormatInt(last.Int(index.Sort), 10) + " " + last.Key().PK + " " + last.Key().SK
			list.NextToken = base64.RawURLEncoding.EncodeToString([]byte(text))
			break
		}
		list.Items = append(list.Items, workflow.Worker{Tenant: tenantOfKey(it.Key().PK), ID: it.Key().SK})
		last = it
	}
	return list, nil
}

func tenantOfKey(pk string) string {
	escaped, _, _ := strings.Cut(pk, "#")
	return table.UnescapeTenant(escaped)
}

func workerDueStartKey(shard int, token string) (table.Item, error) {
	if token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.SplitN(string(text), " ", 3)
	if err != nil || len(parts) != 3 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	dueMillis, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	after := table.Key{PK: parts[1], SK: parts[2]}.Attributes()
	after[topology.IndexWorkersDue.Partition], after[topology.IndexWorkersDue.Sort] = table.S(strconv.Itoa(shard)), table.N(dueMillis)
	return after, nil
}
