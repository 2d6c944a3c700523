package dynamo

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Attributes of the state item, besides the common ones.
const (
	attrEpoch         = "epoch"
	attrCommit        = "commit"
	attrWaiters       = "waiters"
	attrFailureStreak = "failures"
	attrFailureChange = "failuresRev" // the revision of the streak
	attrIndexWrites   = "ix"

	// Attributes that decide about locks, besides state and epoch. The previous release does not
	// know them and leaves them unchanged, so they must not count after whatever it writes. An
	// execution with kept entities has a schema that the previous release refuses to change. The
	// other two are valid only for one epoch, which they name.
	attrKept         = "kept"         // the places, as text
	attrNarrowed     = "narrowed"     // how often entities were released
	attrAwaitsPerson = "awaitsPerson" // the epoch at which its blocker waits for an operator
	attrBlocker      = "blocker"      // {e: epoch, p: place, n: narrowed} of its blocker
	attrBlockerEpoch = "e"
	attrBlockerPlace = "p"
	attrBlockerCount = "n"
)

// Store stores executions.
type Store struct{ t *table.Table }

// Load reads the state item, strongly consistent.
func (s *Store) Load(ctx context.Context, tenant, id string) (*workflow.Execution, error) {
	it, err := s.t.Get(ctx, executionKey(tenant, id, skState))
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
	}
	return executionOf(it)
}

// LoadMany reads state items, strongly consistent, in the order of ids. It leaves out missing ones
// and those that a newer version wrote; newer names the latter.
func (s *Store) LoadMany(ctx context.Context, tenant string, ids []string) (found []*workflow.Execution, newer []string, err error) {
	byKey := map[table.Key]*workflow.Execution{} // nil for those of a newer version
	err = s.t.GetEach(ctx, stateKeys(tenant, ids), true, func(it table.Item) (err error) {
		var x *workflow.Execution
		if it.CheckSchema() == nil {
			x, err = executionOf(it)
		}
		byKey[it.Key()] = x
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, key := range stateKeys(tenant, ids) {
		switch x, ok := byKey[key]; {
		case !ok:
		case x == nil:
			newer = append(newer, ids[i])
		default:
			found = append(found, x)
		}
	}
	return found, newer, nil
}

// Heads reads, strongly consistent, the parts that decide about locks.
func (s *Store) Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return s.heads(ctx, tenant, ids, true)
}

// HeadsWeakly reads the same, each as it is or as it was.
func (s *Store) HeadsWeakly(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return s.heads(ctx, tenant, ids, false)
}

func (s *Store) heads(ctx context.Context, tenant string, ids []string, strong bool) (map[string]workflow.OwnerStatus, error) {
	// The schema version is not read: these attributes decide whether an execution holds its locks,
	// whatever version wrote them.
	items, err := s.t.GetMany(ctx, stateKeys(tenant, ids), strong, attrState, attrEpoch, attrKept, attrNarrowed, attrAwaitsPerson, attrWaiters)
	if err != nil {
		return nil, err
	}
	heads := make(map[string]workflow.OwnerStatus, len(ids))
	for _, id := range ids {
		if heads[id], err = headOf(items[executionKey(tenant, id, skState)]); err != nil {
			return nil, err
		}
	}
	return heads, nil
}

func stateKeys(tenant string, ids []string) []table.Key {
	keys := make([]table.Key, len(ids))
	for i, id := range ids {
		keys[i] = executionKey(tenant, id, skState)
	}
	return keys
}

// Create writes the state item if there is none with its id.
func (s *Store) Create(ctx context.Context, x *workflow.Execution) (bool, error) {
	set, _, err := executionAttributes(x)
	if err != nil {
		return false, err
	}
	key := executionKey(x.Tenant, x.ID, skState)
	set[topology.AttrPK], set[topology.AttrSK] = table.S(key.PK), table.S(key.SK)
	set[topology.IndexByStatus.Sort] = table.S(x.ID)
	x.ItemBytes = set.Size()
	addSignals(x, set)
	ok, old, err := s.t.Put(ctx, set, table.IfAbsent, nil)
	if err != nil {
		return false, err
	}
	return ok || old.Text(attrCommit) == x.Commit, nil
}

// Commit replaces the state item if its version is still seen. It sets all attributes that are keys
// of an index; an index is written, and paid for, only when their values change.
func (s *Store) Commit(ctx context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) (waiters []string, ok bool, err error) {
	set, remove, err := executionAttributes(next)
	if err != nil {
		return nil, false, err
	}
	bytes := set.Size()
	if next.Schema < workflow.SchemaVersion {
		delete(set, table.AttrSchema) // a signal that arrived since may have raised it
	}
	if next.FailureStreak == nil {
		remove = append(remove, attrFailureStreak, attrFailureChange)
	}
	c := table.Update{
		Key: executionKey(next.Tenant, next.ID, skState),
		Set: set, Remove: remove,
		Condition: "#version = :seen", Values: table.Item{"seen": table.N(seen)},
	}
	if o.Release {
		c.Remove = append(c.Remove, attrWaiters)
		c.Return = types.ReturnValueUpdatedOld
	}
	heard, heardOut, err := s.addMailbox(ctx, &c, next, o)
	if err != nil {
		return nil, false, err
	}
	ok, old, err := s.t.Update(ctx, c)
	if err != nil {
		return nil, false, err
	}
	next.ItemBytes, next.Heard, next.HeardOut = bytes, heard, heardOut
	if !ok {
		// Either another handler has committed, or a signal has arrived, or this write has
		// succeeded and its reply was lost. In the last case the waiters were lost with the reply.
		return nil, old.Text(attrCommit) == next.Commit && old.Int(attrVersion) == next.Version, nil
	}
	return old.StringSet(attrWaiters), true, nil
}

// RecordFailureStreak records that advancing the execution keeps failing. The zero
// streak removes what is recorded.
func (s *Store) RecordFailureStreak(ctx context.Context, tenant, id string, seen int64, before *workflow.FailureStreak, streak workflow.FailureStreak) (bool, error) {
	u := table.Update{Key: executionKey(tenant, id, skState), Condition: "#version = :seen AND ", Values: table.Item{"seen": table.N(seen)}}
	switch {
	case before == nil:
		u.Condition += "attribute_not_exists(#" + attrFailureStreak + ")"
	case before.Revision == 0: // as the previous release wrote it
		u.Condition += "attribute_exists(#" + attrFailureStreak + ") AND (attribute_not_exists(#" + attrFailureChange + ") OR #" + attrFailureChange + " = :before)"
		u.Values["before"] = table.N(0)
	default:
		u.Condition += "#" + attrFailureChange + " = :before"
		u.Values["before"] = table.N(before.Revision)
	}
	if u.Remove = []string{attrFailureStreak, attrFailureChange}; streak != (workflow.FailureStreak{}) {
		doc, err := workflow.EncodeJSON(streak)
		if err != nil {
			return false, workflow.Errorf(workflow.CodeInternal, "the failure streak of execution %s cannot be written: %w", id, err)
		}
		u.Set, u.Remove = table.Item{attrFailureStreak: table.S(string(doc)), attrFailureChange: table.N(streak.Revision)}, nil
	}
	ok, _, err := s.t.Update(ctx, u)
	return ok, err
}

// DueExecutions lists the executions of one shard whose timer is due, from the
// index, oldest first.
func (s *Store) DueExecutions(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error) {
	index := topology.IndexDue
	return listDue(ctx, s.t, index, shard, since, now, page, func(it table.Item) workflow.Wakeup {
		tenant, id := table.SplitTenant(it.Key().PK)
		return workflow.Wakeup{Tenant: tenant, Execution: id, Reason: "timer", DueAt: dueAtOf(it)}
	})
}

// ListByState lists the ids of executions in the states that are listed as one.
func (s *Store) ListByState(ctx context.Context, tenant string, state statemachines.ExecutionState, from string, order workflow.Order, limit int) ([]string, error) {
	index := topology.IndexByStatus
	shards := make([]table.Rows, topology.StatusShards)
	for n := range shards {
		q := table.Query{
			Index:        index.Name,
			KeyCondition: "#" + index.Partition + " = :state",
			Values:       table.Item{"state": table.S(statusKey(tenant, n, state))},
			Descending:   order == workflow.OrderNewest,
			PageSize:     limit,
		}
		if from != "" {
			q.KeyCondition += " AND #" + index.Sort + map[workflow.Order]string{workflow.OrderNewest: " < ", workflow.OrderOldest: " > "}[order] + ":from"
			q.Values["from"] = table.S(from)
		}
		shards[n] = s.t.Query(ctx, q)
	}
	before := func(a, b table.Item) bool { return order.Before(a.Text(index.Sort), b.Text(index.Sort)) }
	var ids []string
	for it, err := range table.Merge(ctx, before, shards) {
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

// maxTimersRead bounds how many timers of one shard [Store.ListUnlisted] reads: about 14 read units.
const maxTimersRead = 1000

// ListUnlisted finds the executions among the timers that are due soon, of all tenants, by the mark
// of their keys. It reads the latest first: who has just begun has a timer that is due last.
func (s *Store) ListUnlisted(ctx context.Context, tenant string, now time.Time) ([]string, error) {
	index := topology.IndexDue
	shards := make([][]string, topology.DueShards)
	err := parallel.Each(ctx, len(shards), len(shards), func(ctx context.Context, n int) error {
		read := 0
		for it, err := range s.t.Query(ctx, table.Query{
			Index:        index.Name,
			KeyCondition: "#" + index.Partition + " = :shard AND #" + index.Sort + " <= :until",
			Values:       table.Item{"shard": table.S(strconv.Itoa(n)), "until": table.N(now.Add(workflow.UnlistedFor).UnixMilli() + 1)},
			Descending:   true,
			PageSize:     maxTimersRead,
		}) {
			if err != nil {
				return err
			}
			due := it.Float(index.Sort)
			if of, id := table.SplitTenant(it.Key().PK); due != math.Trunc(due) && of == tenant {
				shards[n] = append(shards[n], id)
			}
			if read++; read == maxTimersRead {
				return nil
			}
		}
		return nil
	})
	return slices.Concat(shards...), err
}

// executionAttributes returns the attributes of the state item, without its keys and waiters, and
// the names of those that it must not have.
func executionAttributes(x *workflow.Execution) (set table.Item, remove []string, err error) {
	doc, err := codec.EncodeExecution(x)
	if err != nil {
		return nil, nil, err
	}
	set = table.Item{
		table.AttrSchema: table.N(int64(x.Schema)),
		attrState:        table.S(string(x.State)),
		attrVersion:      table.N(x.Version),
		attrEpoch:        table.N(x.Epoch),
		attrCommit:       table.S(x.Commit),
		attrDocument:     table.B(doc),
	}
	if !x.DiscardedAt.IsZero() && x.DueAt.IsZero() {
		set[topology.AttrTTL] = table.N(x.DiscardedAt.Unix())
	}
	remove = lockAttributes(x, set)
	if at := x.ListedAs(); at != "" {
		set[topology.IndexByStatus.Partition] = table.S(statusKey(x.Tenant, hashShard(x.ID, topology.StatusShards), at))
	} else {
		remove = append(remove, topology.IndexByStatus.Partition)
	}
	if x.IndexWrites > 0 {
		set[attrIndexWrites] = table.N(int64(x.IndexWrites))
	} else {
		remove = append(remove, attrIndexWrites)
	}
	due := topology.IndexDue
	if x.DueAt.IsZero() {
		return set, append(remove, due.Partition, due.Sort), nil
	}
	set[due.Partition], set[due.Sort] = dueShard(x.ID), table.N(x.DueAt.UnixMilli())
	if x.Unlisted() {
		set[due.Sort] = table.Float(float64(x.DueAt.UnixMilli()) + unlistedFraction)
	}
	return set, remove, nil
}

// unlistedFraction is added to the milliseconds in the index of timers if the index of states leaves
// the execution out. Whoever lists what runs recognises these entries by it, without reading the
// executions.
const unlistedFraction = 0.5

// dueAtOf returns when the timer of a state item, or of its entry in the index, is due.
func dueAtOf(it table.Item) time.Time {
	return table.FromMillis(int64(it.Float(topology.IndexDue.Sort)))
}

// lockAttributes adds the attributes that decide about locks, and returns the names of
// those that x does not have.
func lockAttributes(x *workflow.Execution, set table.Item) (remove []string) {
	if x.Kept != nil {
		set[attrKept] = table.S(x.Kept.String())
	}
	if x.Narrowed > 0 {
		set[attrNarrowed] = table.N(x.Narrowed)
	}
	if b := x.BlockedBy; b != nil {
		if b.NeedsPerson {
			set[attrAwaitsPerson] = table.N(x.Epoch)
		}
		set[attrBlocker] = table.M(table.Item{
			attrBlockerEpoch: table.N(x.Epoch), attrBlockerPlace: table.N(int64(b.Place)), attrBlockerCount: table.N(b.Narrowed),
		})
	}
	for _, name := range []string{attrKept, attrNarrowed, attrAwaitsPerson, attrBlocker} {
		if !set.Has(name) {
			remove = append(remove, name)
		}
	}
	return remove
}

// executionOf reads a state item.
func executionOf(it table.Item) (*workflow.Execution, error) {
	x, err := codec.DecodeExecution(it.Bytes(attrDocument))
	if err != nil {
		return nil, err
	}
	x.Tenant, x.ID = table.SplitTenant(it.Key().PK)
	x.Schema = int(it.Int(table.AttrSchema))
	head, err := headOf(it)
	if err != nil {
		return nil, err
	}
	x.State, x.Epoch, x.Kept, x.Narrowed = head.State, head.Epoch, head.Kept, head.Narrowed
	if b := it.Map(attrBlocker); x.BlockedBy != nil && b.Has(attrBlockerEpoch) && b.Int(attrBlockerEpoch) == x.Epoch {
		x.BlockedBy.Place, x.BlockedBy.Narrowed, x.BlockedBy.NeedsPerson = int(b.Int(attrBlockerPlace)), b.Int(attrBlockerCount), head.AwaitsPerson
	}
	x.Version, x.Commit = it.Int(attrVersion), it.Text(attrCommit)
	if it.Has(topology.IndexDue.Sort) {
		x.DueAt = dueAtOf(it)
	}
	x.Waiters, x.IndexWrites = it.StringSet(attrWaiters), int(it.Int(attrIndexWrites))
	if streak := it.Text(attrFailureStreak); streak != "" {
		if err := json.Unmarshal([]byte(streak), &x.FailureStreak); err != nil {
			return nil, workflow.Errorf(workflow.CodeInternal, "the failure streak of execution %s cannot be read: %w", x.ID, err)
		}
		x.FailureStreak.Revision = it.Int(attrFailureChange)
	}
	x.ItemBytes = it.Size() - readMailbox(it, x)
	return x, nil
}

func headOf(it table.Item) (workflow.OwnerStatus, error) {
	head := workflow.OwnerStatus{State: statemachines.ExecutionState(it.Text(attrState)), Epoch: it.Int(attrEpoch), Narrowed: it.Int(attrNarrowed)}.
		WithWaiters(it.StringSet(attrWaiters), workflow.MaxWaiters)
	head.AwaitsPerson = it.Has(attrAwaitsPerson) && it.Int(attrAwaitsPerson) == head.Epoch
	if it.Has(attrKept) {
		kept, err := workflow.ParsePlaces(it.Text(attrKept))
		if err != nil {
			return head, err
		}
		head.Kept = &kept
	}
	return head, nil
}
