package httpblock

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// request is the body of a request to a block.
type request struct {
	Operation  workflow.JobKind `json:"operation"`
	Block      string           `json:"block"`
	Job        job              `json:"job"`
	Entity     *entity          `json:"entity"`
	Parameters json.RawMessage  `json:"parameters"`
	Result     json.RawMessage  `json:"result"`
	Token      *int64           `json:"token"`
	Fence      string           `json:"fence"`
	Deadline   time.Time        `json:"deadline"`
	Resume     *workflow.Resume `json:"resume,omitempty"`

	Checkpoints workflow.Checkpoints `json:"checkpoints,omitempty"`
}

type job struct {
	ID        string `json:"id"`
	Execution string `json:"execution"`
	Step      string `json:"step"`
	Attempt   int    `json:"attempt"`
}

type entity struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes"`
}

// MarshalRequest returns the body of the request for a job.
func MarshalRequest(j *worker.Job) (json.RawMessage, error) {
	return workflow.EncodeJSON(newRequest(j))
}

func newRequest(j *worker.Job) request {
	r := request{
		Operation: j.Operation, Block: j.Block,
		Job:        job{j.ID, j.ExecutionID, j.Step, j.Attempt},
		Parameters: orDefault(j.Parameters, "{}"), Result: orDefault(j.Result, "null"),
		Checkpoints: j.Checkpoints(), Resume: j.Resume, Fence: j.Fence, Deadline: j.Deadline.UTC().Truncate(time.Millisecond),
	}
	if j.Entity != nil {
		r.Entity = &entity{j.Entity.Type, j.Entity.ID, orDefault(j.Attributes, "{}")}
		r.Token = &j.Token
	}
	return r
}

func orDefault(raw json.RawMessage, fallback string) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(fallback)
	}
	return raw
}

// entityRef is an entity in the response to an ACQUIRE: an object, or a string
// "type/id".
type entityRef workflow.EntityKey

// UnmarshalJSON decodes either form.
func (f *entityRef) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return json.Unmarshal(raw, (*workflow.EntityKey)(f))
	}
	key, err := workflow.ParseEntityKey(text)
	*f = entityRef(key)
	return err
}

// response is the body of a response with status 200.
type response struct {
	Outcome  string              `json:"outcome"`
	Result   json.RawMessage     `json:"result"`
	Entities []entityRef         `json:"entities"`
	Updates  []workflow.Update   `json:"updates"`
	Next     string              `json:"next"`
	Wait     *workflow.AskedWait `json:"wait"`
	Error    *struct {
		Code      string          `json:"code"`
		Message   string          `json:"message"`
		Retryable bool            `json:"retryable"`
		Details   json.RawMessage `json:"details"`
	} `json:"error"`
	Checkpoints workflow.Checkpoints `json:"checkpoints"`
	Logs        workflow.LogLines    `json:"logs"`
}

// fields maps the fields of an object that are read to the fields of the objects inside them; nil
// for a value that is taken as a whole.
type fields map[string]fields

var entityFields = fields{"type": nil, "id": nil}

var responseFields = fields{
	"outcome": nil, "result": nil, "next": nil, "entities": entityFields,
	"updates":     {"entity": entityFields, "set": nil, "remove": nil},
	"wait":        {"until": nil, "reason": nil, "signal": nil, "input": {"schema": nil, "who": {"actors": nil, "roles": nil, "notStarter": nil}}},
	"checkpoints": nil, "logs": nil,
	"error": {"code": nil, "message": nil, "retryable": nil, "details": nil},
}

// checkCase finds a field whose name differs only in case from one that is read. encoding/json
// accepts such a field, but readers in other languages do not.
func (known fields) checkCase(v any, path string) error {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := known.checkCase(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner, exact := known[name]
			for field := range known {
				if !exact && strings.EqualFold(field, name) {
					return fmt.Errorf("%s: the field is named %q", yamldoc.JoinPath(path, name), field)
				}
			}
			if inner != nil {
				if err := inner.checkCase(v[name], yamldoc.JoinPath(path, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
