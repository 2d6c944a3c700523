package harness

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// otherAttributes is an upper bound for the bytes of an item's attributes besides its document.
const otherAttributes = 1 << 10

// MeasureItems makes a world measure items as they are stored: encoded and compressed. It panics if
// an item cannot be encoded, or reads differently than it was encoded.
func MeasureItems(w *sim.World) {
	w.ExecutionBytes = func(x *workflow.Execution) int {
		doc, err := codec.EncodeExecution(x)
		return measured(doc, err)
	}
	w.PackBytes = func(p *workflow.Pack) int {
		doc, err := codec.EncodePack(p)
		n, read := measured(doc, err), &workflow.Pack{ClaimedAt: p.ClaimedAt}
		if err := codec.DecodePack(read, doc); err != nil || len(read.Jobs) != len(p.Jobs) {
			panic(fmt.Sprintf("pack %s with %d jobs is read with %d: %v", p.Key, len(p.Jobs), len(read.Jobs), err))
		}
		return n
	}
	w.EntityBytes = func(e workflow.Entity) int {
		n := len(e.Type) + len(e.ID)
		for _, g := range e.Groups {
			n += len(g)
		}
		return n + measured(table.Deflate.Compress(e.Attributes), nil)
	}
}

func measured(doc []byte, err error) int {
	if err != nil {
		panic(fmt.Sprintf("an item cannot be encoded: %v", err))
	}
	return len(doc) + otherAttributes
}
