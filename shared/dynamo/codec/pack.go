package codec

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// packDocument is the part of a pack that changes with every write. Jobs are lines,
//
//	[index, code, started, ended, outcome, result, failure, updates, entities, resultRef, next, wait, checkpoints, progress, logs]
//
// without the empty members at the end. Codes are letters; times are milliseconds
// since Base, null for none.
type packDocument struct {
	Base int64             `json:"b"`
	Jobs []json.RawMessage `json:"j"`
	Cost workflow.Cost     `json:"c,omitzero"`
}

var codeLetters = map[workflow.JobCode]string{
	workflow.JobCodeNone: "N", workflow.JobCodeStarted: "S", workflow.JobCodeOK: "O",
	workflow.JobCodeFail: "F", workflow.JobCodeUnknown: "U", workflow.JobCodeNotExecuted: "X",
}

var codesByLetter = func() map[string]workflow.JobCode {
	m := map[string]workflow.JobCode{}
	for code, letter := range codeLetters {
		m[letter] = code
	}
	return m
}()

// EncodePack encodes the part of a pack that changes.
func EncodePack(p *workflow.Pack) ([]byte, error) {
	d := packDocument{Base: table.Millis(p.ClaimedAt), Cost: p.Cost}
	since := func(at time.Time) any {
		if at.IsZero() {
			return nil
		}
		return at.UnixMilli() - d.Base
	}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		letter, known := codeLetters[j.Code]
		if !known {
			return nil, workflow.Errorf(workflow.CodeInternal, "job %d has the unknown code %q", j.Index, j.Code)
		}
		line := []any{j.Index, letter, since(j.StartedAt), since(j.EndedAt), string(j.Outcome), rawOrNil(j.Result), j.Failure, rawOrNil(j.Updates), j.Entities, j.ResultRef, j.Next, j.Wait, j.Checkpoints, j.Progress, j.Logs}
		for isZero(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		one, err := workflow.EncodeJSON(line)
		if err != nil {
			return nil, table.EncodeError(err)
		}
		d.Jobs = append(d.Jobs, one)
	}
	plain, err := workflow.EncodeJSON(d)
	if err != nil {
		return nil, table.EncodeError(err)
	}
	return packCompressor.Compress(plain), nil
}

// rawOrNil returns nil for an empty value, so that it is left out or null.
func rawOrNil(r json.RawMessage) any {
	if len(r) == 0 {
		return nil
	}
	return r
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case *workflow.Failure:
		return v == nil
	case []workflow.EntityKey:
		return len(v) == 0
	case *workflow.PayloadRef:
		return v == nil
	case *workflow.AskedWait:
		return v == nil
	case workflow.Checkpoints:
		return len(v) == 0
	case *workflow.JobProgress:
		return v == nil
	case *workflow.JobLogs:
		return v == nil
	}
	return false
}

// DecodePack decodes the part of a pack that changes into p.
func DecodePack(p *workflow.Pack, packed []byte) error {
	plain, err := packCompressor.Decompress(packed)
	if err != nil || len(plain) == 0 {
		return err
	}
	var d packDocument
	if err := table.DecodeStrict(plain, &d); err != nil {
		return err
	}
	p.Cost = d.Cost
	at := func(since *int64) time.Time {
		if since == nil {
			return time.Time{}
		}
		return time.UnixMilli(d.Base + *since).UTC()
	}
	for _, one := range d.Jobs {
		var fields []json.RawMessage
		if err := table.DecodeStrict(one, &fields); err != nil {
			return err
		}
		var j workflow.JobRecord
		var letter, outcome string
		var started, ended *int64
		if err := decodeFields(fields, &j.Index, &letter, &started, &ended, &outcome, &j.Result, &j.Failure, &j.Updates, &j.Entities, &j.ResultRef, &j.Next, &j.Wait, &j.Checkpoints, &j.Progress, &j.Logs); err != nil {
			return err
		}
		var known bool
		if j.Code, known = codesByLetter[letter]; !known {
			return table.NewerVersionError()
		}
		j.StartedAt, j.EndedAt, j.Outcome = at(started), at(ended), statemachines.Outcome(outcome)
		// An empty member before others is null.
		if string(j.Result) == "null" {
			j.Result = nil
		}
		if string(j.Updates) == "null" {
			j.Updates = nil
		}
		p.Jobs = append(p.Jobs, j)
	}
	return nil
}
