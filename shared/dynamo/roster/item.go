package roster

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// document is the part of a worker that its registration says.
type document struct {
	Pool         string    `json:"pool,omitempty"`
	Blocks       []string  `json:"blocks,omitempty"`
	Version      string    `json:"version,omitempty"`
	RegisteredAt time.Time `json:"at,omitzero"`
}

func encode(w *workflow.Worker) ([]byte, error) {
	plain, err := json.Marshal(document{w.Pool, w.Blocks, w.Version, w.RegisteredAt})
	if err != nil {
		return nil, table.Unstorable(err)
	}
	return table.Plain.Pack(plain), nil
}

func workerOf(it table.Item) (*workflow.Worker, error) {
	plain, err := table.Plain.Unpack(it.Bytes(attrDoc))
	if err != nil {
		return nil, err
	}
	var doc document
	if err := table.Strict(plain, &doc); err != nil {
		return nil, err
	}
	w := &workflow.Worker{
		Tenant: tenantOf(it.Key().PK), ID: it.Key().SK,
		State: statemachines.WorkerState(it.Text(attrState)), Pool: doc.Pool, Blocks: doc.Blocks, Version: doc.Version,
		RegisteredAt: doc.RegisteredAt, Heard: table.At(it.Int(attrHeard)), DueAt: table.At(it.Int(topology.IndexWorkersDue.Sort)),
	}
	for _, text := range it.Texts(attrHeld) {
		w.Held = append(w.Held, workflow.HeldPack(text))
	}
	slices.Sort(w.Held)
	return w, nil
}
