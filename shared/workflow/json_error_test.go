package workflow_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestJSONError_HasNoGoTypes(t *testing.T) {
	type inner struct {
		Names []string          `json:"names"`
		Count int               `json:"count"`
		Share float64           `json:"share"`
		On    bool              `json:"on"`
		At    time.Time         `json:"at"`
		More  map[string]string `json:"more"`
		Life  workflow.Duration `json:"life"`
	}
	type outer struct {
		Wait *inner           `json:"wait"`
		Text workflow.JobKind `json:"text"`
	}
	for text, want := range map[string]string{
		`{"wait":"x"}`:           "wait: want an object, not a string",
		`{"wait":[]}`:            "wait: want an object, not a list",
		`{"wait":{"names":{}}}`:  "wait.names: want a list, not an object",
		`{"wait":{"names":[1]}}`: "wait.names: want a string, not a number",
		`{"wait":{"count":1.5}}`: "wait.count: want a whole number, not 1.5",
		`{"wait":{"share":"x"}}`: "wait.share: want a number, not a string",
		`{"wait":{"on":"x"}}`:    "wait.on: want true or false, not a string",
		`{"wait":{"more":true}}`: "wait.more: want an object, not true or false",
		`{"wait":{"at":"soon"}}`: "want a time such as 2030-01-31T08:00:00Z, not soon",
		`{"wait":{"at":1}}`:      "want a time such as 2030-01-31T08:00:00Z, and as a string",
		`{"text":1}`:             "text: want a string, not a number",
		`[]`:                     "want an object, not a list",
		`{"novelty":1}`:          `unknown field "novelty"`,
		`{"wait":`:               "it is not JSON: it ends too early",
		`{]`:                     "it is not JSON: invalid character ']' looking for beginning of object key string, at byte 2",
	} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := workflow.JSONError(d.Decode(new(outer))); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if workflow.JSONError(nil) != nil {
		t.Error("no error has become one")
	}
}
