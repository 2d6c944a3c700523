package dynamo

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Sort keys of an execution's items.
const (
	skState  = "state"
	skInput  = "input"
	skEvents = "events#"
)

func executionKey(tenant, id, sk string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + id, SK: sk}
}

// parseExecutionKey reads tenant and id from an execution's partition key.
func parseExecutionKey(pk string) (tenant, id string) {
	at := strings.LastIndexByte(pk, '#')
	if at < 0 {
		return "", pk
	}
	return table.UnescapeTenant(pk[:at]), pk[at+1:]
}

func scopeKey(tenant, id, key string, chunk int) table.Key {
	return executionKey(tenant, id, fmt.Sprintf("scope#%s#%04d", key, chunk))
}

func eventsKey(tenant, id string, first int64) table.Key {
	return executionKey(tenant, id, fmt.Sprintf("%s%012d", skEvents, first))
}

func shardOfID(id string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() % uint32(shards))
}

func statusKey(tenant string, shard int, state statemachines.ExecutionState) string {
	return table.TenantPrefix(tenant) + strconv.Itoa(shard) + "#" + string(state)
}

func executionDueShard(id string) string { return strconv.Itoa(shardOfID(id, topology.DueShards)) }

func lockKey(tenant string, key workflow.EntityKey) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + key.String(), SK: "lock"}
}
