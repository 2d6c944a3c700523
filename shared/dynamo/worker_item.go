package dynamo

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// workerDocument is the part of a worker that its registration says.
type workerDocument struct {
	Pool         string    `json:"pool,omitempty"`
	Blocks       []string  `json:"blocks,omitempty"`
	Version      string    `json:"version,omitempty"`
	RegisteredAt time.Time `json:"at,omitzero"`
}

func encodeWorker(w *workflow.Worker) ([]byte, error) {
	plain, err := json.Marshal(workerDocument{w.Pool, w.Blocks, w.Version, w.RegisteredAt})
	if err != nil {
		return nil, table.EncodeError(err)
	}
	return table.Deflate.Compress(plain), nil
}

func workerOf(it table.Item) (*workflow.Worker, error) {
	plain, err := table.Deflate.Decompress(it.Bytes(attrWorkerDocument))
	if err != nil {
		return nil, err
	}
	var doc workerDocument
	if err := table.DecodeStrict(plain, &doc); err != nil {
		return nil, err
	}
	w := &workflow.Worker{
		Tenant: tenantOfKey(it.Key().PK), ID: it.Key().SK,
		State: statemachines.WorkerState(it.Text(attrWorkerState)), Pool: doc.Pool, Blocks: doc.Blocks, Version: doc.Version,
		RegisteredAt: doc.RegisteredAt, LastSeenAt: table.FromMillis(it.Int(attrLastHeartbeat)), DueAt: table.FromMillis(it.Int(topology.IndexWorkersDue.Sort)),
	}
	for _, text := range it.StringSet(attrHeldPacks) {
		w.ClaimedPacks = append(w.ClaimedPacks, workflow.ClaimedPack(text))
	}
	slices.Sort(w.ClaimedPacks)
	return w, nil
}
