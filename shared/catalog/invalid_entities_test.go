package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// What PUT refuses, an import refuses too.
func TestCatalog_RefusesInvalidEntities(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for name, attributes := range map[string]string{
		"exponent": `{"x":1e9999999}`, "digits": `{"x":` + strings.Repeat("9", 500) + `}`,
		"nested": `{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		"bytes":  "{\"x\":\"\xff\xfe\"}", "twice": `{"x":1,"x":2}`, "twice within": `{"y":[{"x":1,"x":2}]}`,
	} {
		_, err := c.PutEntity(ctx, ann, workflow.Entity{Type: "device", ID: "a", Attributes: json.RawMessage(attributes)})
		if !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s, put: %v", name, err)
		}
		_, err = c.ImportEntities(ctx, ann, strings.NewReader(`{"type":"device","id":"a","attributes":`+attributes+`}`))
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != workflow.CodeInvalid || len(e.Issues) != 1 || e.Issues[0].Line != 1 {
			t.Errorf("%s, imported: %v", name, err)
		}
	}
	for _, line := range []string{
		`{"type":"device","id":"a","id":"b"}`, `{"type":"device","id":"a","ID":"c"}`, `{"Type":"device","id":"a"}`,
	} {
		if _, err := c.ImportEntities(ctx, ann, strings.NewReader(line)); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n, err := c.ImportEntities(ctx, ann, strings.NewReader(`{"type":"device","id":"a","attributes":{"x":{"id":1},"y":{"id":2},"ID":3,"z":[1,1]}}`)); n != 1 || err != nil {
		t.Error(n, err)
	}
}
