package packs

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Sort keys of a shard's items.
const (
	skPack = "p#"
	skDone = "done"
	skData = "r#"
)

func shardKey(run workflow.RunKey, shard int) string {
	return fmt.Sprintf("%s%s#%d#%d#%d", table.Tenant(run.Tenant), run.Execution, run.Visit, run.RunSeq, shard)
}

func packKey(k workflow.PackKey) table.Key {
	return table.Key{PK: shardKey(k.Run(), k.Shard()), SK: fmt.Sprintf("%s%05d#%03d#%02d", skPack, k.Lane, k.Pos, k.Attempt)}
}

// dataKey is a part of what is stored beside a pack.
func dataKey(k workflow.PackKey, s workflow.Stored, chunk int) table.Key {
	return table.Key{
		PK: shardKey(k.Run(), k.Shard()),
		SK: fmt.Sprintf("%s%05d#%03d#%02d#%s#%d", skData, k.Lane, k.Pos, k.Attempt, s.Digest, chunk),
	}
}

// packKeyOf adds to a run what a pack's sort key says.
func packKeyOf(run workflow.RunKey, sk string) (workflow.PackKey, error) {
	k := run.Pack(0, 0)
	if _, err := fmt.Sscanf(sk, skPack+"%d#%d#%d", &k.Lane, &k.Pos, &k.Attempt); err != nil {
		return k, workflow.Errorf(workflow.CodeInternal, "%q is not the key of a pack: %w", sk, err)
	}
	return k, nil
}
