package workflow_test

import (
	"encoding/json"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A place that a value does not have is an error, whatever stands there instead.
func TestReplaceText_NamesNoPlaceThatIsMissing(t *testing.T) {
	for _, c := range []struct {
		value string
		at    []string
	}{
		{`{"auth":null}`, []string{"auth", "key"}}, {`{}`, []string{"key"}}, {`{"list":[]}`, []string{"list", "0"}}, {`{"list":["was"]}`, []string{"list", "-1"}},
		{`{"list":["was"]}`, []string{"list", "x"}}, {`{"key":7}`, []string{"key"}}, {`{"key":"other"}`, []string{"key"}}, {``, []string{"key"}},
	} {
		if got, err := workflow.ReplaceText(json.RawMessage(c.value), c.at, "was", "is"); err == nil {
			t.Errorf("%s at %v: %s", c.value, c.at, got)
		}
	}
	if got, err := workflow.ReplaceText(json.RawMessage(`{"list":["a","was"]}`), []string{"list", "1"}, "was", "is"); err != nil || string(got) != `{"list":["a","is"]}` {
		t.Errorf("%s, %v", got, err)
	}
}
