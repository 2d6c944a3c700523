package dynamo

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Create writes the state item if none exists under its id.
func (s *Store) Create(ctx context.Context, x *workflow.Execution) (bool, error) {
	set, _, err := executionAttributes(x)
	if err != nil {
		return false, err
	}
	key := executionKey(x.Tenant, x.ID, skState)
	set[topology.AttrPK], set[topology.AttrSK] = table.S(key.PK), table.S(key.SK)
	set[topology.IndexByStatus.Sort] = table.S(x.ID)
	ok, old, err := s.t.Put(ctx, set, table.IfAbsent, nil)
	if err != nil {
		return false, err
	}
	return ok || old.Text(attrCommit) == x.Commit, nil
}

// Commit replaces the state item if its version is still seen. The attributes
// that are keys of an index are always set; an index is only written, and paid
// for, when their values change.
func (s *Store) Commit(ctx context.Context, seen int64, next *workflow.Execution, release bool) (waiters []string, ok bool, err error) {
	set, remove, err := executionAttributes(next)
	if err != nil {
		return nil, false, err
	}
	if next.FailureStreak == nil {
		remove = append(remove, attrFailureStreak)
	}
	c := table.Update{
		Key: executionKey(next.Tenant, next.ID, skState),
		Set: set, Remove: remove,
		Condition: "#version = :seen", Values: table.Item{"seen": table.N(seen)},
	}
	if release {
		c.Remove = append(c.Remove, attrWaiters)
		c.Return = types.ReturnValueUpdatedOld
	}
	ok, old, err := s.t.Update(ctx, c)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		// Either somebody else has been here, or this very write, whose reply was
		// lost. In the second case the waiters went with the lost reply.
		return nil, old.Text(attrCommit) == next.Commit && old.Int(attrVersion) == next.Version, nil
	}
	return old.StringSet(attrWaiters), true, nil
}

// RecordFailureStreak writes down that looks fail.
func (s *Store) RecordFailureStreak(ctx context.Context, tenant, id string, seen int64, t workflow.FailureStreak) error {
	doc, err := json.Marshal(t)
	if err != nil {
		return workflow.Errorf(workflow.CodeInternal, "trouble cannot be written: %w", err)
	}
	_, _, err = s.t.Update(ctx, table.Update{
		Key:       executionKey(tenant, id, skState),
		Set:       table.Item{attrFailureStreak: table.S(string(doc))},
		Condition: "#version = :seen", Values: table.Item{"seen": table.N(seen)},
	})
	return err
}

// executionAttributes is the state item without its keys and without the waiters, and
// the attributes that it must not have.
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

		topology.IndexByStatus.Partition: table.S(statusKey(x.Tenant, shardOfID(x.ID, topology.StatusShards), x.State)),
	}
	if !x.DiscardedAt.IsZero() && x.DueAt.IsZero() {
		set[topology.AttrTTL] = table.N(x.DiscardedAt.Unix())
	}
	due := topology.IndexDue
	if x.DueAt.IsZero() {
		return set, []string{due.Partition, due.Sort}, nil
	}
	set[due.Partition], set[due.Sort] = table.S(executionDueShard(x.ID)), table.N(x.DueAt.UnixMilli())
	return set, nil, nil
}

// executionOf reads a state item.
func executionOf(it table.Item) (*workflow.Execution, error) {
	x, err := codec.DecodeExecution(it.Bytes(attrDocument))
	if err != nil {
		return nil, err
	}
	x.Tenant, x.ID = parseExecutionKey(it.Key().PK)
	x.Schema = int(it.Int(table.AttrSchema))
	x.State, x.Epoch = headOf(it).State, headOf(it).Epoch
	x.Version, x.Commit = it.Int(attrVersion), it.Text(attrCommit)
	if it.Has(topology.IndexDue.Sort) {
		x.DueAt = table.FromMillis(it.Int(topology.IndexDue.Sort))
	}
	x.Waiters = it.StringSet(attrWaiters)
	if t := it.Text(attrFailureStreak); t != "" {
		if err := json.Unmarshal([]byte(t), &x.FailureStreak); err != nil {
			return nil, workflow.Errorf(workflow.CodeInternal, "the trouble of execution %s cannot be read: %w", x.ID, err)
		}
	}
	x.ItemBytes = it.Size()
	return x, nil
}
