package roster

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

// New opens them in the jobs table.
func New(t *table.Table) *Workers { return &Workers{t} }

// Attributes of a worker's item.
const (
	attrState = "state"
	attrHeard = "heard"
	attrHeld  = "held"
	attrDoc   = "doc"
)

const partition = "workers"

// buried is how long an item outlives its worker: who still reads an index that
// lags behind finds that it is gone.
const buried = time.Hour

func keyOf(tenant, id string) table.Key {
	return table.Key{PK: table.Tenant(tenant) + partition, SK: id}
}

func shardOf(tenant, id string) string {
	h := fnv.New32a()
	h.Write([]byte(tenant + "#" + id))
	return strconv.Itoa(int(h.Sum32() % topology.DueShards))
}

// Worker is a strongly consistent read; nil if absent.
func (w *Workers) Worker(ctx context.Context, tenant, id string) (*workflow.Worker, error) {
	it, err := w.t.Get(ctx, keyOf(tenant, id))
	if err != nil || it == nil {
		return nil, err
	}
	return workerOf(it)
}

// Workers lists a tenant's workers in order of id.
func (w *Workers) Workers(ctx context.Context, tenant string, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	limit := workflow.DefaultPage
	if page.Limit > 0 {
		limit = min(page.Limit, workflow.MaxPage)
	}
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil || len(after) > 1024 {
		return list, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	q := table.Query{Key: "#pk = :pk", With: table.Item{"pk": table.S(keyOf(tenant, "").PK)}, Strong: true, Page: limit + 1}
	if len(after) > 0 {
		q.After = keyOf(tenant, string(after)).Attributes()
	}
	for it, err := range w.t.Query(ctx, q) {
		if err != nil {
			return workflow.List[workflow.Worker]{}, err
		}
		if it.Text(attrState) == string(statemachines.WorkerRemoved) {
			continue
		}
		if len(list.Items) == limit {
			list.Next = base64.RawURLEncoding.EncodeToString([]byte(list.Items[limit-1].ID))
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
	doc, err := encode(next)
	if err != nil {
		return false, err
	}
	c := table.Change{
		Key: keyOf(next.Tenant, next.ID),
		Set: table.Item{
			attrState: table.S(string(next.State)), attrHeard: table.N(table.Millis(next.Heard)), attrDoc: table.B(doc),
		},
		If: table.IfAbsent,
	}
	if seen != nil {
		c.If = "#state = :was AND #heard = :before"
		c.With = table.Item{"was": table.S(string(seen.State)), "before": table.N(table.Millis(seen.Heard))}
	}
	due := topology.IndexWorkersDue
	if next.DueAt.IsZero() {
		c.Remove = append(c.Remove, due.Partition, due.Sort)
	} else {
		c.Set[due.Partition], c.Set[due.Sort] = table.S(shardOf(next.Tenant, next.ID)), table.N(table.Millis(next.DueAt))
	}
	if next.State == statemachines.WorkerRemoved {
		c.Set[topology.AttrTTL] = table.N(next.Heard.Add(buried).Unix())
	} else {
		c.Remove = append(c.Remove, topology.AttrTTL)
	}
	if len(next.Held) == 0 {
		c.Remove = append(c.Remove, attrHeld)
	}
	ok, _, err := w.t.Update(ctx, c)
	return ok, err
}

// Beat writes the time of a heartbeat of a worker that is ONLINE.
func (w *Workers) Beat(ctx context.Context, tenant, id string, at time.Time, held []workflow.HeldPack) (bool, *workflow.Worker, error) {
	c := table.Change{
		Key:  keyOf(tenant, id),
		Set:  table.Item{attrHeard: table.N(table.Millis(at))},
		If:   "#state = :online",
		With: table.Item{"online": table.S(string(statemachines.WorkerOnline))},
	}
	switch {
	case len(held) > 0:
		c.Set[attrHeld] = packs(held...)
	case held != nil:
		c.Remove = []string{attrHeld}
	}
	ok, was, err := w.t.Update(ctx, c)
	if ok || err != nil || was == nil {
		return ok, nil, err
	}
	old, err := workerOf(was)
	return false, old, err
}

// Hold adds a pack to those that a worker holds.
func (w *Workers) Hold(ctx context.Context, tenant, id string, pack workflow.HeldPack) error {
	_, _, err := w.t.Update(ctx, table.Change{
		Key: keyOf(tenant, id), Add: table.Item{attrHeld: packs(pack)}, If: "attribute_exists(#pk)",
	})
	return err
}

// Drop takes one away.
func (w *Workers) Drop(ctx context.Context, tenant, id string, pack workflow.HeldPack) error {
	_, _, err := w.t.Update(ctx, table.Change{
		Key: keyOf(tenant, id), Delete: table.Item{attrHeld: packs(pack)}, If: "attribute_exists(#pk)",
	})
	return err
}

func packs(held ...workflow.HeldPack) table.Value {
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
	limit := workflow.DefaultPage
	if page.Limit > 0 {
		limit = min(page.Limit, workflow.MaxPage)
	}
	after, err := behind(shard, page.Token)
	if err != nil {
		return list, err
	}
	var last table.Item
	for it, err := range w.t.Query(ctx, table.Query{
		Index: index.Name,
		Key:   "#" + index.Partition + " = :shard AND #" + index.Sort + " <= :now",
		With:  table.Item{"shard": table.S(strconv.Itoa(shard)), "now": table.N(now.UnixMilli())},
		After: after,
		Page:  limit + 1,
	}) {
		if err != nil {
			return workflow.List[workflow.Worker]{}, err
		}
		if len(list.Items) == limit {
			text := strconv.FormatInt(last.Int(index.Sort), 10) + " " + last.Key().PK + " " + last.Key().SK
			list.Next = base64.RawURLEncoding.EncodeToString([]byte(text))
			break
		}
		list.Items = append(list.Items, workflow.Worker{Tenant: tenantOf(it.Key().PK), ID: it.Key().SK})
		last = it
	}
	return list, nil
}

func tenantOf(pk string) string {
	escaped, _, _ := strings.Cut(pk, "#")
	return table.TenantOf(escaped)
}

func behind(shard int, token string) (table.Item, error) {
	if token == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.SplitN(string(text), " ", 3)
	if err != nil || len(parts) != 3 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	rings, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the page token is not one of ours")
	}
	after := table.Key{PK: parts[1], SK: parts[2]}.Attributes()
	after[topology.IndexWorkersDue.Partition], after[topology.IndexWorkersDue.Sort] = table.S(strconv.Itoa(shard)), table.N(rings)
	return after, nil
}
