package form

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// document is the part of a state item that no condition and no index needs.
// What stands in attributes of its own is left out of X; events are lines.
type document struct {
	X body            `json:"x"`
	E json.RawMessage `json:"e,omitempty"`
}

// body is an execution without its text form of events.
type body workflow.Execution

// EncodeExecution writes the document of a state item.
func EncodeExecution(x *workflow.Execution) ([]byte, error) {
	d := document{X: body(*x)}
	d.X.Schema, d.X.Tenant, d.X.ID, d.X.State = 0, "", "", ""
	d.X.Version, d.X.Epoch, d.X.Commit = 0, 0, ""
	d.X.DueAt, d.X.Events, d.X.Waiters = time.Time{}, nil, nil
	if len(x.Events) > 0 {
		lines, err := eventLines(x.Events)
		if err != nil {
			return nil, err
		}
		d.E = lines
	}
	plain, err := json.Marshal(d)
	if err != nil {
		return nil, table.Unstorable(err)
	}
	return executions.Pack(plain), nil
}

// DecodeExecution reads it; what stands in attributes is left empty.
func DecodeExecution(packed []byte) (*workflow.Execution, error) {
	plain, err := executions.Unpack(packed)
	if err != nil {
		return nil, err
	}
	var d document
	if err := table.Strict(plain, &d); err != nil {
		return nil, err
	}
	x := workflow.Execution(d.X)
	if len(d.E) > 0 {
		if x.Events, err = eventsOf(d.E); err != nil {
			return nil, err
		}
	}
	return &x, nil
}

// executions compresses executions and event pages.
var executions = table.NewCodec(1, map[byte][]byte{1: []byte(executionDictionary1)})

// packs compresses job records.
var packs = table.NewCodec(1, map[byte][]byte{1: []byte(packDictionary1)})
