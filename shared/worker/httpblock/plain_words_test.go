package httpblock_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// goWords are words of Go and of this program that nobody who writes a block knows.
var goWords = regexp.MustCompile(`Go (struct|value|type)|interface ?\{|map\[|\[\]\w|json: |workflow\.|httpblock\.|Unmarshal|entityRef|\*\w`)

// Whatever a response holds in place of what is wanted: what is said of it has the words of JSON, and
// something is said wherever a value is not what it has to be.
func TestParseResponse_SpeaksOfJSON(t *testing.T) {
	values := map[string]string{"null": "null", "true": "boolean", `"x"`: "string", "7": "number", "1.5": "number", "[]": "list", `[7]`: "list", `{}`: "object", `{"a":7}`: "object"}
	for path, wants := range map[string]string{
		"outcome": "string", "result": "any", "next": "string", "entities": "list", "updates": "list", "wait": "object", "error": "object", "checkpoints": "object", "logs": "any",
		"updates[].entity": "object", "updates[].set": "object", "updates[].remove": "list", "entities[].type": "string", "entities[].id": "string", "entities[]": "string object",
		"wait.until": "string", "wait.reason": "string", "wait.signal": "string", "wait.input": "object", "wait.input.schema": "any", "wait.input.who": "object",
		"wait.input.who.actors": "list", "wait.input.who.roles": "list", "wait.input.who.notStarter": "boolean",
		"error.code": "string", "error.message": "string", "error.retryable": "boolean", "error.details": "any",
	} {
		for value, kind := range values {
			parts := strings.Split(path, ".")
			text := value
			for i := len(parts) - 1; i >= 0; i-- {
				name, list := strings.CutSuffix(parts[i], "[]")
				if list {
					text = "[" + text + "]"
				}
				text = fmt.Sprintf("{%q:%s}", name, text)
			}
			if !strings.HasPrefix(text, `{"outcome"`) {
				outcome := "OK"
				if parts[0] == "error" || parts[0] == "checkpoints" {
					outcome = "ERROR"
				}
				text = fmt.Sprintf(`{"outcome":%q,%s`, outcome, text[1:])
			}
			operation := workflow.JobExecute
			if strings.HasPrefix(path, "entities") {
				operation = workflow.JobAcquire
			}
			_, err := httpblock.ParseResponse([]byte(text), operation)
			if err != nil && goWords.MatchString(err.Error()) {
				t.Errorf("%s: %v", text, err)
			}
			if fits := wants == "any" || kind == "null" || strings.Contains(wants, kind); err == nil && !fits {
				t.Errorf("%s: nothing is said", text)
			}
		}
	}
}
