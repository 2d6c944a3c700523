package engine_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Which entities are SKIPPED is judged at the end, if a condition may have left out some. This reads
// the entities of the execution once more, and no pack of a step whose jobs all ended well.
func TestCost_OfSkippedEntities(t *testing.T) {
	const devices = 300
	execute := func(condition string) (skipped, scopes int, packs float64) {
		o := harness.Options()
		o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(fourDigitIDs(devices)...)
		s.Publish("w", "steps: [{label: one, functionBlock: p/again:1, runOn: device, condition: '"+condition+"'}]\n")
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "store.load_scope" {
				scopes++
			}
			return faults.None
		}
		before := s.Consumed()
		id := s.Start("w", fourDigitIDs(devices)...)
		for s.Deliver() {
		}
		if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Result != nil {
			skipped = x.Result.Count[workflow.EntitySkipped]
		}
		return skipped, scopes, since(s, before).ReadUnits["jobs"]
	}
	none, scopes, packs := execute("true")
	some, scopesIfSome, packsIfSome := execute(`!entity.id.endsWith("7")`)
	if none != 0 || some != devices/10 {
		t.Fatalf("%d and %d entities are skipped", none, some)
	}
	if scopesIfSome != scopes+1 {
		t.Errorf("the entities are read %d times if some are skipped, and %d times otherwise", scopesIfSome, scopes)
	}
	if packsIfSome > packs {
		t.Errorf("%v units of packs are read if some entities are skipped, and %v otherwise", packsIfSome, packs)
	}
}
