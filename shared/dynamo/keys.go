package dynamo

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Attributes common to several kinds of items. Those of a single kind are in its file; those that
// are keys of an index have their names from topology.
const (
	attrState    = "state"
	attrVersion  = "version"
	attrToken    = "token"
	attrDigest   = "digest"
	attrDocument = "doc"
)

// Sort keys of an execution's items.
const (
	skState  = "state"
	skInput  = "input"
	skEvents = "events#"

	skDescendants = "descendants"
)

func executionKey(tenant, id, sk string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + id, SK: sk}
}

func scopeKey(tenant, id, key string, chunk int) table.Key {
	return executionKey(tenant, id, fmt.Sprintf("scope#%s#%04d", key, chunk))
}

func eventsKey(tenant, id string, first int64) table.Key {
	return executionKey(tenant, id, fmt.Sprintf("%s%012d", skEvents, first))
}

// heardKey returns the key of the item that remembers a consumed signal.
func heardKey(tenant, id, signal string) table.Key {
	return executionKey(tenant, id, "heard#"+signal)
}

// valueKey returns the key of one chunk of a value.
func valueKey(tenant, id, owner string, ref workflow.PayloadRef, chunk int) table.Key {
	return executionKey(tenant, id, fmt.Sprintf("value#%s#%s#%d", owner, ref.Digest, chunk))
}

// statusKey returns the partition of the by-status index for one shard and a state of
// [statemachines.ListedAs].
func statusKey(tenant string, shard int, state statemachines.ExecutionState) string {
	return table.TenantPrefix(tenant) + strconv.Itoa(shard) + "#" + string(state)
}

func lockKey(tenant string, key workflow.EntityKey) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + key.String(), SK: "lock"}
}

// Sort keys of the items of a step run's shard.
const (
	skPackPrefix    = "p#"
	skDoneSet       = "done"
	skPayloadPrefix = "r#"
)

func packShardKey(stepRun workflow.StepRunKey, shard int) string {
	return fmt.Sprintf("%s%s#%d#%d#%d", table.TenantPrefix(stepRun.Tenant), stepRun.Execution, stepRun.Ordinal, stepRun.Seq, shard)
}

func doneSetKey(stepRun workflow.StepRunKey, shard int) table.Key {
	return table.Key{PK: packShardKey(stepRun, shard), SK: skDoneSet}
}

func packKey(k workflow.PackKey) table.Key {
	return table.Key{PK: packShardKey(k.StepRunKey(), k.Shard()), SK: fmt.Sprintf("%s#%03d#%02d", lanePrefix(k.Lane), k.PipelinePos, k.Attempt)}
}

// lanePrefix returns the prefix of the sort keys of a lane's packs.
func lanePrefix(lane int) string { return fmt.Sprintf("%s%05d", skPackPrefix, lane) }

// payloadKey returns the key of one chunk of a pack's payload.
func payloadKey(k workflow.PackKey, ref workflow.PayloadRef, chunk int) table.Key {
	return table.Key{
		PK: packShardKey(k.StepRunKey(), k.Shard()),
		SK: fmt.Sprintf("%s%05d#%03d#%02d#%s#%d", skPayloadPrefix, k.Lane, k.PipelinePos, k.Attempt, ref.Digest, chunk),
	}
}

// parsePackKey reads a pack's sort key; stepRun gives the rest of its key.
func parsePackKey(stepRun workflow.StepRunKey, sk string) (workflow.PackKey, error) {
	k := stepRun.Pack(0, 0)
	if _, err := fmt.Sscanf(sk, skPackPrefix+"%d#%d#%d", &k.Lane, &k.PipelinePos, &k.Attempt); err != nil {
		return k, workflow.Errorf(workflow.CodeInternal, "%q is not the sort key of a pack: %w", sk, err)
	}
	return k, nil
}

// hashShard spreads names over shards.
func hashShard(name string, shards uint32) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % shards)
}

// dueShard returns the partition of an index of due items that holds the item.
func dueShard(name string) table.Value {
	return table.S(strconv.Itoa(hashShard(name, topology.DueShards)))
}
