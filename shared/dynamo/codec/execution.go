// Package codec encodes executions, events and packs for storage, in so few bytes
// that the state item of a short execution, and a pack of ten jobs, cost one write
// unit each.
//
//   - execution.go: the part of an execution that has no attribute of its own.
//   - events.go: events, each a line of an array.
//   - pack.go: job records, in the same way.
//   - dictionary.go: what the compression starts from.
//
// Decoding is strict: it refuses an unknown format, field or code, because a newer
// version wrote it.
package codec

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// executionDocument is the part of a state item that no condition and no index
// needs. Fields with an attribute of their own are left empty; events are lines.
type executionDocument struct {
	Execution executionBody   `json:"x"`
	Events    json.RawMessage `json:"e,omitempty"`
}

// executionBody is an execution without the methods of its type.
type executionBody workflow.Execution

// EncodeExecution encodes the document of a state item.
func EncodeExecution(x *workflow.Execution) ([]byte, error) {
	d := executionDocument{Execution: executionBody(*x)}
	d.Execution.Schema, d.Execution.Tenant, d.Execution.ID, d.Execution.State = 0, "", "", ""
	d.Execution.Version, d.Execution.Epoch, d.Execution.Commit = 0, 0, ""
	d.Execution.DueAt, d.Execution.Events, d.Execution.Waiters = time.Time{}, nil, nil
	d.Execution.Kept, d.Execution.Narrowed = nil, 0
	d.Execution.Result = x.Result.InItem()
	if x.LastEnd != nil {
		last := *x.LastEnd
		last.Result = last.Result.InItem()
		d.Execution.LastEnd = &last
	}
	if x.BlockedBy != nil {
		by := *x.BlockedBy
		by.Place, by.Narrowed, by.NeedsPerson = 0, 0, false
		d.Execution.BlockedBy = &by
	}
	if len(x.Events) > 0 {
		lines, err := encodeEventLines(x.Events)
		if err != nil {
			return nil, err
		}
		d.Events = lines
	}
	plain, err := workflow.EncodeJSON(d)
	if err != nil {
		return nil, table.EncodeError(err)
	}
	return executionCompressor.Compress(plain), nil
}

// DecodeExecution decodes the document of a state item. Fields with an attribute of their own stay
// empty.
func DecodeExecution(packed []byte) (*workflow.Execution, error) {
	plain, err := executionCompressor.Decompress(packed)
	if err != nil {
		return nil, err
	}
	var d executionDocument
	if err := table.DecodeStrict(plain, &d); err != nil {
		return nil, err
	}
	x := workflow.Execution(d.Execution)
	if len(d.Events) > 0 {
		if x.Events, err = decodeEventLines(d.Events); err != nil {
			return nil, err
		}
	}
	return &x, nil
}

// executionCompressor compresses executions and event pages.
var executionCompressor = table.NewCompressor(1, map[byte][]byte{1: []byte(executionDictionary1)})

// packCompressor compresses job records.
var packCompressor = table.NewCompressor(1, map[byte][]byte{1: []byte(packDictionary1)})
