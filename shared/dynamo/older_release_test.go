package dynamo

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The previous release keeps attributes that it does not know. Their contents do not count for what
// that release has written.
func TestOlderRelease_LeavesNothingThatCounts(t *testing.T) {
	lock := table.Item{
		attrOwner: table.S("x"), attrToken: table.N(4), attrPlace: table.M(table.Item{attrPlaceToken: table.N(4), attrHolderPlace: table.N(3)}),
	}
	if n := ownerPlace(lock); n != 3 {
		t.Errorf("place %d", n)
	}
	lock[attrToken] = table.N(5) // it has taken the lock
	if n := ownerPlace(lock); n != 0 {
		t.Errorf("the place of an earlier take is %d", n)
	}

	x := shortExecution()
	x.State, x.BlockedBy = sm.ExecutionScheduled, &workflow.BlockedBy{Execution: "y", Epoch: 7, Place: 3, Narrowed: 2, NeedsPerson: true}
	it := stateItem(t, x)
	if back, err := executionOf(it); err != nil || !reflect.DeepEqual(back.BlockedBy, x.BlockedBy) {
		t.Errorf("read as %+v, %v", back.BlockedBy, err)
	}
	it[attrEpoch] = table.N(x.Epoch + 1) // it has asked for the locks again, and was blocked again
	back, err := executionOf(it)
	if want := (workflow.BlockedBy{Execution: "y", Epoch: 7}); err != nil || !reflect.DeepEqual(*back.BlockedBy, want) || back.OwnerStatus().AwaitsPerson {
		t.Errorf("read as %+v, %v", back.BlockedBy, err)
	}
	if head, err := headOf(it); err != nil || head.AwaitsPerson {
		t.Errorf("read as %+v, %v", head, err)
	}
}

// The item of an execution without signals has the attributes that it had before there were
// any, in a commit too.
func TestOlderRelease_SeesNoMailboxWithoutSignals(t *testing.T) {
	x := shortExecution()
	it := stateItem(t, x)
	addSignals(x, it)
	names := slices.Sorted(maps.Keys(it))
	if want := []string{"commit", "doc", "epoch", "id", "pk", "schema", "sk", "state", "statusKey", "version"}; !slices.Equal(names, want) {
		t.Errorf("created with %v", names)
	}
	c := table.Update{Set: table.Item{}, Values: table.Item{}}
	if _, _, err := new(Store).addMailbox(t.Context(), &c, x, workflow.CommitOptions{}); err != nil || len(c.Set)+len(c.SetExpressions)+len(c.Values) > 0 || x.Needs() != 1 {
		t.Errorf("a commit writes %+v, and needs schema %d: %v", c, x.Needs(), err)
	}
	for _, y := range []*workflow.Execution{{SignalOrder: 1}, {AwaitedSignals: []string{"paid"}}} {
		if y.Needs() != workflow.SchemaVersion {
			t.Errorf("%+v needs schema %d", y, y.Needs())
		}
	}
}

// What an ordinary execution stores can be read by the release before, also while it waits.
func TestOlderRelease_ReadsBlockedExecution(t *testing.T) {
	x := shortExecution()
	x.BlockedBy = &workflow.BlockedBy{Execution: "y", Epoch: 7}
	plain, err := codec.EncodeExecution(x)
	if err != nil {
		t.Fatal(err)
	}
	x.BlockedBy = &workflow.BlockedBy{Execution: "y", Epoch: 7, Place: 3, Narrowed: 2, NeedsPerson: true}
	if doc, err := codec.EncodeExecution(x); err != nil || !bytes.Equal(doc, plain) || x.Needs() != 1 {
		t.Errorf("its document has new fields, or it needs schema %d: %v", x.Needs(), err)
	}
	if x.BlockedBy.Place != 3 {
		t.Error("encoding has changed the execution")
	}
}

// A definition that an older release cannot read is refused there as what a newer one has
// written, so that its executions are left to that one. Others are as they were.
func TestOlderRelease_LeavesNewDefinitions(t *testing.T) {
	for schema, want := range map[int]bool{0: true, 1: true, workflow.SchemaVersion: true, workflow.SchemaVersion + 1: false} {
		it := definitionItem("t", "p/w#1", &workflow.PublishedDefinition{Digest: "d", Source: []byte("{}"), Schema: schema})
		if err := it.CheckSchema(); (err == nil) != want || err != nil && !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("schema %d: %v", schema, err)
		}
		if it.Has(table.AttrSchema) != (schema > 1) {
			t.Errorf("schema %d: %v", schema, it)
		}
	}
}
