package openapi

import (
	"encoding/json"
	"testing"
)

// Every pattern of the document has a description, so that no message shows a regular
// expression.
func TestDescribePattern_KnowsEveryPattern(t *testing.T) {
	var document any
	if err := json.Unmarshal(JSON, &document); err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for name, item := range v {
				if pattern, ok := item.(string); ok && name == "pattern" {
					if seen++; patternDescriptions[pattern] == "" {
						t.Errorf("the pattern %s has no description", pattern)
					}
				}
				if name != "example" { // an answer, which may have a schema of its own
					walk(item)
				}
			}
		}
	}
	walk(document)
	if seen < 10 {
		t.Errorf("%d patterns found", seen)
	}
}
