package dynamo

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Workers stores the polling workers, in the jobs table.
type Workers struct{ t *table.Table }

// Attributes of a worker's item, besides the common ones.
const (
	attrLastHeartbeat = "lastHeartbeat"
	attrHeldPacks     = "heldPacks"
)

// removedWorkerTTL is how long an item outlives its worker, so that a reader of the index, which
// lags, finds it removed.
const removedWorkerTTL = time.Hour

func workerKey(tenant, id string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "workers", SK: id}
}

// Worker reads a worker, strongly consistent; nil if absent.
func (w *Workers) Worker(ctx context.Context, tenant, id string) (*workflow.Worker, error) {
	it, err := w.t.Get(ctx, workerKey(tenant, id))
	if err != nil || it == nil {
		return nil, err
	}
	worker, err := workerOf(it)
	if err != nil {
		return nil, err
	}
	return &worker, nil
}

// Workers lists a tenant's workers ordered by id, without removed ones.
func (w *Workers) Workers(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Worker], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.Worker]{}, err
	}
	rows := w.t.Query(ctx, partitionQuery(workerKey(tenant, "").PK, after, pageLimit(page)))
	present := filter(rows, func(it table.Item) bool { return it.Text(attrState) != string(statemachines.WorkerRemoved) })
	return collectPage(present, pageLimit(page), workerOf)
}

// PutWorker replaces seen by next.
func (w *Workers) PutWorker(ctx context.Context, seen, next *workflow.Worker) (bool, error) {
	doc, err := encodeDocument(workerDocument{next.Pool, next.Blocks, next.Version, next.RegisteredAt})
	if err != nil {
		return false, err
	}
	c := table.Update{
		Key: workerKey(next.Tenant, next.ID),
		Set: table.Item{
			attrState: table.S(string(next.State)), attrLastHeartbeat: table.N(table.Millis(next.LastSeenAt)), attrDocument: doc,
		},
		Condition: table.IfAbsent,
	}
	if seen != nil {
		c.Condition = "#state = :was AND #lastHeartbeat = :before"
		c.Values = table.Item{"was": table.S(string(seen.State)), "before": table.N(table.Millis(seen.LastSeenAt))}
	}
	due := topology.IndexWorkersDue
	if next.DueAt.IsZero() {
		c.Remove = append(c.Remove, due.Partition, due.Sort)
	} else {
		c.Set[due.Partition], c.Set[due.Sort] = dueShard(next.Tenant+"#"+next.ID), table.N(table.Millis(next.DueAt))
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

// Heartbeat writes the heartbeat time of a worker in the given state, and the packs that it holds
// unless held is nil.
func (w *Workers) Heartbeat(ctx context.Context, tenant, id string, state statemachines.WorkerState, at time.Time, held []workflow.ClaimedPack) (bool, *workflow.Worker, error) {
	c := table.Update{
		Key:       workerKey(tenant, id),
		Set:       table.Item{attrLastHeartbeat: table.N(table.Millis(at))},
		Condition: "#state = :was",
		Values:    table.Item{"was": table.S(string(state))},
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
	if err != nil {
		return false, nil, err
	}
	return false, &old, nil
}

// AddClaimedPack adds a pack to those that a worker holds.
func (w *Workers) AddClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error {
	_, _, err := w.t.Update(ctx, table.Update{
		Key: workerKey(tenant, id), Add: table.Item{attrHeldPacks: heldPackSet(pack)}, Condition: "attribute_exists(#pk)",
	})
	return err
}

// RemoveClaimedPack removes a pack from those that a worker holds.
func (w *Workers) RemoveClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error {
	_, _, err := w.t.Update(ctx, table.Update{
		Key: workerKey(tenant, id), Delete: table.Item{attrHeldPacks: heldPackSet(pack)}, Condition: "attribute_exists(#pk)",
	})
	return err
}

func heldPackSet(held ...workflow.ClaimedPack) table.Value {
	names := make([]string, len(held))
	for i, h := range held {
		names[i] = string(h)
	}
	return table.StringSet(names...)
}

// DueWorkers lists the workers of one shard whose state must be checked by now. Only Tenant and ID
// are set.
func (w *Workers) DueWorkers(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[workflow.Worker], error) {
	return listDue(ctx, w.t, topology.IndexWorkersDue, shard, time.Time{}, now, page, func(it table.Item) workflow.Worker {
		tenant, _ := table.SplitTenant(it.Key().PK)
		return workflow.Worker{Tenant: tenant, ID: it.Key().SK}
	})
}

// workerDocument is the data of a worker's registration.
type workerDocument struct {
	Pool         string    `json:"pool,omitempty"`
	Blocks       []string  `json:"blocks,omitempty"`
	Version      string    `json:"version,omitempty"`
	RegisteredAt time.Time `json:"at,omitzero"`
}

func workerOf(it table.Item) (workflow.Worker, error) {
	var doc workerDocument
	if err := decodeDocument(it, &doc); err != nil {
		return workflow.Worker{}, err
	}
	tenant, _ := table.SplitTenant(it.Key().PK)
	w := workflow.Worker{
		Tenant: tenant, ID: it.Key().SK,
		State: statemachines.WorkerState(it.Text(attrState)), Pool: doc.Pool, Blocks: doc.Blocks, Version: doc.Version,
		RegisteredAt: doc.RegisteredAt, LastSeenAt: table.FromMillis(it.Int(attrLastHeartbeat)), DueAt: table.FromMillis(it.Int(topology.IndexWorkersDue.Sort)),
	}
	for _, name := range it.StringSet(attrHeldPacks) {
		w.ClaimedPacks = append(w.ClaimedPacks, workflow.ClaimedPack(name))
	}
	slices.Sort(w.ClaimedPacks)
	return w, nil
}
