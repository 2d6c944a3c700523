package lifecycle_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An execution whose state item is almost full, or that would keep very many scattered entities,
// refuses commands that name entities to keep, and another try for them. It can always be
// acknowledged and unlocked as a whole.
func TestDecide_NamesEntitiesOnlyWhereThereIsRoom(t *testing.T) {
	const many = 200_000
	entities := &lifecycle.ScopeEntities{}
	var odd []workflow.EntityKey
	for i := range many {
		key := workflow.EntityKey{Type: "device", ID: time.UnixMilli(int64(i)).Format("150405.000")}
		entities.List = append(entities.List, workflow.ScopeEntity{Key: key, Place: i + 1})
		if i%2 == 0 {
			odd = append(odd, key)
		}
	}
	two := workflow.NewPlaces(1, 2)
	first := entities.List[0].Key
	for name, test := range map[string]struct {
		size    int
		kept    *workflow.Places
		command lifecycle.Command
		refused bool
	}{
		"acknowledge one of two":                   {size: 10 << 10, kept: &two, command: lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Only: []workflow.EntityKey{first}}},
		"acknowledge every other of very many":     {size: 10 << 10, command: lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Only: odd}, refused: true},
		"acknowledge one of many without room":     {size: 380 << 10, command: lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Only: []workflow.EntityKey{first}}, refused: true},
		"unlock one of many without room":          {size: 380 << 10, command: lifecycle.Command{Kind: lifecycle.CommandUnlock, Only: []workflow.EntityKey{first}}, refused: true},
		"acknowledge one of two without room":      {size: 380 << 10, kept: &two, command: lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Only: []workflow.EntityKey{first}}},
		"retry two without room":                   {size: 380 << 10, kept: &two, command: lifecycle.Command{Kind: lifecycle.CommandRetry}, refused: true},
		"acknowledge all without room":             {size: 380 << 10, kept: &two, command: lifecycle.Command{Kind: lifecycle.CommandAcknowledge}},
		"unlock all without room":                  {size: 380 << 10, kept: &two, command: lifecycle.Command{Kind: lifecycle.CommandUnlock}},
		"unlock all, none of which is named":       {size: 380 << 10, command: lifecycle.Command{Kind: lifecycle.CommandUnlock}},
		"acknowledge all, none of which was named": {size: 380 << 10, command: lifecycle.Command{Kind: lifecycle.CommandAcknowledge}},
	} {
		t.Run(name, func(t *testing.T) {
			x := &workflow.Execution{
				ID: "x", State: sm.ExecutionFailedUnsafe, Version: 3, Epoch: 1, Try: 1, Kept: test.kept, ItemBytes: test.size,
				Scope: workflow.Scope{HeldEpoch: 1, Counts: map[string]int{"device": many}},
			}
			d, err := lifecycle.Decide(x, lifecycle.Facts{Command: &test.command, Entities: entities}, policy, startTime)
			if refused := workflow.Is(err, workflow.CodeLimit); refused != test.refused || err == nil && d.Next == nil {
				t.Errorf("got %+v, %v", d.Next, err)
			}
		})
	}
}

// An entity that is acknowledged or unlocked by its name is told apart from those to look at, without a
// change to the execution as it was read.
func TestDecide_MarksReleasedEntities(t *testing.T) {
	a, b, c := workflow.EntityKey{Type: "device", ID: "a"}, workflow.EntityKey{Type: "device", ID: "b"}, workflow.EntityKey{Type: "device", ID: "c"}
	entities := &lifecycle.ScopeEntities{List: []workflow.ScopeEntity{{Key: a, Place: 1}, {Key: b, Place: 2}, {Key: c, Place: 3}}}
	for _, kind := range []lifecycle.CommandKind{lifecycle.CommandAcknowledge, lifecycle.CommandUnlock} {
		x := &workflow.Execution{
			ID: "x", State: sm.ExecutionFailedUnsafe, Version: 3, Epoch: 1, Try: 1, Scope: workflow.Scope{HeldEpoch: 1, Counts: map[string]int{"device": 3}},
			Result: &workflow.Result{Named: []workflow.EntityFailure{{Entity: a.String()}, {Entity: b.String(), Released: true}, {Entity: c.String()}}},
		}
		d, err := lifecycle.Decide(x, lifecycle.Facts{Command: &lifecycle.Command{Kind: kind, Only: []workflow.EntityKey{c}}, Entities: entities}, policy, startTime)
		if err != nil {
			t.Fatal(err)
		}
		var released []bool
		for _, f := range slices.Concat(d.Next.Result.Named, x.Result.Named) {
			released = append(released, f.Released)
		}
		if want := []bool{false, true, true, false, true, false}; !slices.Equal(released, want) {
			t.Errorf("%s: released after and before: %v, want %v", kind, released, want)
		}
	}
}

// Who acknowledged entities by name, and why, is kept beside later acknowledgements. The oldest of
// many are counted only, and all are of one try.
func TestDecide_KeepsEarlierAcknowledgements(t *testing.T) {
	const many = workflow.MaxEarlierAcks + 4
	entities := &lifecycle.ScopeEntities{}
	for i := range many {
		entities.List = append(entities.List, workflow.ScopeEntity{Key: workflow.EntityKey{Type: "device", ID: strconv.Itoa(i)}, Place: i + 1})
	}
	x := &workflow.Execution{ID: "x", State: sm.ExecutionFailedUnsafe, Version: 3, Epoch: 1, Try: 1, Scope: workflow.Scope{HeldEpoch: 1, Counts: map[string]int{"device": many}}}
	long := strings.Repeat("r", workflow.MaxReasonBytes-2)
	for i := range many {
		c := lifecycle.Command{Kind: lifecycle.CommandAcknowledge, Actor: "ann", Reason: strconv.Itoa(i) + long, Only: []workflow.EntityKey{entities.List[i].Key}}
		if i == many-1 {
			c.Only = nil
		}
		d, err := lifecycle.Decide(x, lifecycle.Facts{Command: &c, Entities: entities}, policy, startTime.Add(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		x = d.Next
		if i == 0 && (len(x.Acknowledged.Earlier) > 0 || x.Acknowledged.EarlierMore > 0) {
			t.Errorf("before the first: %+v", x.Acknowledged)
		}
	}
	all := x.Acknowledged
	if all.Entities != nil || all.Reason != "13"+long || !all.At.Equal(startTime.Add((many-1)*time.Minute)) || all.EarlierMore != 3 || len(all.Earlier) != workflow.MaxEarlierAcks {
		t.Fatalf("got %d earlier, %d more, and the last is %+v", len(all.Earlier), all.EarlierMore, all.Acknowledgement)
	}
	for i, a := range all.Earlier {
		if n := i + 3; a.By != "ann" || !strings.HasPrefix(a.Reason, strconv.Itoa(n)+"rr") || len(a.Reason) > workflow.MaxShortMessage || !a.At.Equal(startTime.Add(time.Duration(n)*time.Minute)) || a.Entities == nil || *a.Entities != 1 {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

// A rollback is retried only for the entities that are still held, even if the outcomes of single
// entities have not been read: those released since may belong to others.
func TestDecide_RollsBackOnlyWhatIsHeld(t *testing.T) {
	kept := workflow.NewPlaces(1, 2, 3)
	for name, test := range map[string]struct {
		kept   *workflow.Places
		result *workflow.Result
		asks   bool
	}{
		"nothing was released":             {result: &workflow.Result{Stored: &workflow.PayloadRef{}, Count: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 2}}},
		"one of two that are not named":    {kept: &kept, result: &workflow.Result{Stored: &workflow.PayloadRef{}, Count: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 2}}, asks: true},
		"one of four that are not named":   {kept: &kept, result: &workflow.Result{Stored: &workflow.PayloadRef{}, Count: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 4}}, asks: true},
		"none of three that are not named": {kept: &kept, result: &workflow.Result{Stored: &workflow.PayloadRef{}, Count: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 3}}},
		"one that is safe":                 {kept: &kept, result: &workflow.Result{Sets: workflow.OutcomeSets{workflow.EntityFailedUnsafe: workflow.NewPlaces(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			x := &workflow.Execution{
				ID: "x", State: sm.ExecutionFailedUnsafe, Version: 3, Epoch: 1, Try: 1, Kept: test.kept, Result: test.result, Cause: workflow.CauseStepFailed,
				Scope: workflow.Scope{HeldEpoch: 1, Counts: map[string]int{"device": 4}},
				StepRuns: []workflow.StepRun{
					{Seq: 1, Try: 1, Kind: workflow.JobExecute, Label: "a", Jobs: 4, Status: sm.StepFailed, Reversible: true, Idempotent: true, Counts: workflow.Counts{OK: 4}},
					{Seq: 2, Try: 1, Kind: workflow.JobRollback, Label: "a", Undoes: 1, Jobs: 4, Status: sm.StepFailed, Counts: workflow.Counts{OK: 2, Failed: 2}},
				},
			}
			facts := lifecycle.Facts{
				Command:    &lifecycle.Command{Kind: lifecycle.CommandRetry, Rollback: workflow.RollbackAuto},
				Resolution: &lifecycle.Resolution{Program: &spec.Program{Nodes: []spec.Node{{Step: &spec.Step{Label: "a"}}}}},
			}
			d, err := lifecycle.Decide(x, facts, policy, startTime)
			if err != nil {
				t.Fatal(err)
			}
			if asks := d.Need != nil && d.Need.Kind == lifecycle.NeedEntities; asks != test.asks {
				t.Errorf("it asks which entities it holds: %v, want %v (%+v)", asks, test.asks, d.Need)
			}
		})
	}
}
