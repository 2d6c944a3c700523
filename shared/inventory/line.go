package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// entityLine is an entity as it is written; what the inventory itself counts may stand
// there, so that a listing can be imported again, and is ignored.
type entityLine struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes"`
	Groups     []string        `json:"groups"`
	Version    int64           `json:"version"`
	Token      int64           `json:"token"`
}

// ParseLine reads one line and lists what is wrong with it.
func ParseLine(raw []byte) (workflow.Entity, []workflow.Issue) {
	if !utf8.Valid(raw) {
		return workflow.Entity{}, []workflow.Issue{{Code: "encoding", Message: "the line is not UTF-8"}}
	}
	if bad := duplicateField(raw); bad != nil {
		return workflow.Entity{}, []workflow.Issue{*bad}
	}
	if bad := miscasedField(raw); bad != nil {
		return workflow.Entity{}, []workflow.Issue{*bad}
	}
	var l entityLine
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return workflow.Entity{}, []workflow.Issue{decodeIssue(err)}
	}
	if d.More() {
		return workflow.Entity{}, []workflow.Issue{{Code: "json", Message: "more than one value on the line"}}
	}
	e := workflow.Entity{Type: l.Type, ID: l.ID, Attributes: l.Attributes, Groups: l.Groups}
	return e, ValidateEntity(&e, "")
}

// withArticle is the name of a kind of value in a sentence.
func withArticle(kind string) string {
	if strings.ContainsAny(kind[:min(1, len(kind))], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
}

// decodeIssue words why a line is no entity.
func decodeIssue(err error) workflow.Issue {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); {
	case unknown:
		name = strings.Trim(name, `"`)
		return workflow.Issue{Path: name, Code: "unknown_field", Message: "an entity has type, id, attributes and groups, and no such field"}
	case errors.As(err, &kind) && kind.Field == "":
		return workflow.Issue{Code: "type", Message: "want an object such as {\"type\":\"device\",\"id\":\"sw-001\"}, not " + withArticle(kind.Value)}
	case errors.As(err, &kind):
		return workflow.Issue{Path: kind.Field, Code: "type", Message: "this value cannot be " + withArticle(kind.Value)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return workflow.Issue{Code: "json", Message: "this is not JSON: it ends too early"}
	case errors.As(err, &syntax):
		return workflow.Issue{Code: "json", Column: int(syntax.Offset), Message: "this is not JSON: " + err.Error()}
	}
	return workflow.Issue{Code: "json", Message: "this is not JSON: " + err.Error()}
}

// unsupportedValue is what of a value nobody behind can work with: text that is not UTF-8,
// numbers beyond measure, and what nests too deep.
func unsupportedValue(raw json.RawMessage, path string) *workflow.Issue {
	if !utf8.Valid(raw) {
		return &workflow.Issue{Path: path, Code: "encoding", Message: "the text is not UTF-8"}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // which is told already
	}
	if bad := schema.CheckValue(v, path, yamldoc.JoinPath); bad != nil {
		return bad
	}
	return duplicateField(raw)
}

// fieldNames are those of a line, which the decoder would take in capitals too.
var fieldNames = []string{"type", "id", "attributes", "groups", "version", "token"}

// duplicateField reports the first field that an object has twice.
func duplicateField(raw []byte) *workflow.Issue {
	d := schema.FindDuplicateKey(raw, yamldoc.JoinPath)
	if d == nil {
		return nil
	}
	return &workflow.Issue{Path: d.Key, Code: "duplicate_field", Message: fmt.Sprintf("the field %q stands here a second time", d.Key)}
}

// miscasedField is a field of a line that is written in other letters.
func miscasedField(raw []byte) *workflow.Issue {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for name := range fields {
		if !slices.Contains(fieldNames, name) && slices.ContainsFunc(fieldNames, func(f string) bool { return strings.EqualFold(f, name) }) {
			return &workflow.Issue{Path: name, Code: "unknown_field", Message: "an entity has type, id, attributes and groups, and no such field"}
		}
	}
	return nil
}
