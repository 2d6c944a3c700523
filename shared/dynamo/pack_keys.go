package dynamo

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Sort keys of a shard's items.
const (
	skPackPrefix    = "p#"
	skDoneSet       = "done"
	skPayloadPrefix = "r#"
)

func packShardKey(stepRun workflow.StepRunKey, shard int) string {
	return fmt.Sprintf("%s%s#%d#%d#%d", table.TenantPrefix(stepRun.Tenant), stepRun.Execution, stepRun.Ordinal, stepRun.Seq, shard)
}

func packKey(k workflow.PackKey) table.Key {
	return table.Key{PK: packShardKey(k.StepRunKey(), k.Shard()), SK: fmt.Sprintf("%s%05d#%03d#%02d", skPackPrefix, k.Lane, k.PipelinePos, k.Attempt)}
}

// payloadKey is a part of what is stored beside a pack.
func payloadKey(k workflow.PackKey, s workflow.PayloadRef, chunk int) table.Key {
	return table.Key{
		PK: packShardKey(k.StepRunKey(), k.Shard()),
		SK: fmt.Sprintf("%s%05d#%03d#%02d#%s#%d", skPayloadPrefix, k.Lane, k.PipelinePos, k.Attempt, s.Digest, chunk),
	}
}

// parsePackKey adds to a run what a pack's sort key says.
func parsePackKey(stepRun workflow.StepRunKey, sk string) (workflow.PackKey, error) {
	k := stepRun.Pack(0, 0)
	if _, err := fmt.Sscanf(sk, skPackPrefix+"%d#%d#%d", &k.Lane, &k.PipelinePos, &k.Attempt); err != nil {
		return k, workflow.Errorf(workflow.CodeInternal, "%q is not the key of a pack: %w", sk, err)
	}
	return k, nil
}
