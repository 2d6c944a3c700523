package lifecycle_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An execution whose state item is almost full, or that would keep very many scattered
// entities, refuses to name those that it keeps, and another try of them. It can always be
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
