package inventory

import (
	"bufio"
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

// MaxLineBytes bounds the length of a line, in bytes.
const MaxLineBytes = 64 << 10

// IssueNotStored is the code of the issue that names the first line which an import did not store
// because it ran out of time.
const IssueNotStored = "not_stored"

// ReadImport reads the lines of an import and calls handle for every entity with the number of its
// line, including invalid ones. It lists what is wrong with the lines, and stops after maxIssues
// issues. The error comes from handle or from the reader.
func ReadImport(r io.Reader, maxIssues int, handle func(line int, e workflow.Entity) error) (issues []workflow.Issue, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), MaxLineBytes+len("\r\n")+1) // a line and its end, so that the longest line is read
	seen := map[workflow.EntityKey]int{}
	n, tooLong := 0, false
	for len(issues) < maxIssues && lines.Scan() {
		if tooLong = len(lines.Bytes()) > MaxLineBytes; tooLong {
			break
		}
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, found := ParseLine(line)
		if err := handle(n, e); err != nil {
			return nil, err
		}
		if at, duplicate := seen[e.Key()]; duplicate && len(found) == 0 {
			found = []workflow.Issue{{Code: "duplicate", Message: fmt.Sprintf("%s is already on line %d", e.Key(), at)}}
		}
		seen[e.Key()] = n
		for _, i := range found {
			i.Line = n
			issues = append(issues, i)
		}
	}
	if err := lines.Err(); tooLong || errors.Is(err, bufio.ErrTooLong) {
		issues = append(issues, workflow.Issue{Line: n + 1, Code: "too_large", Message: fmt.Sprintf("a line holds at most %d bytes", MaxLineBytes)})
	} else if err != nil {
		return nil, err
	}
	return issues, nil
}

// entityLine is an entity on a line. Version and Token are ignored, so that a listing can be
// imported again.
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
	if d := schema.FindDuplicateKey(raw, "", yamldoc.JoinPath); d != nil {
		return workflow.Entity{}, []workflow.Issue{{Path: yamldoc.JoinPath(d.Path, d.Key), Code: "duplicate_field", Message: fmt.Sprintf("the field %q stands here a second time", d.Key)}}
	}
	if issue := miscasedField(raw); issue != nil {
		return workflow.Entity{}, []workflow.Issue{*issue}
	}
	var l entityLine
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return workflow.Entity{}, []workflow.Issue{decodeIssue(err)}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More is false before a stray } or ]
		return workflow.Entity{}, []workflow.Issue{{Code: "json", Message: "more than one value on the line"}}
	}
	e := workflow.Entity{Type: l.Type, ID: l.ID, Attributes: l.Attributes, Groups: l.Groups}
	return e, ValidateEntity(&e, "")
}

// withArticle returns the name of a kind of JSON value with its article.
func withArticle(kind string) string {
	if strings.ContainsAny(kind[:min(1, len(kind))], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
}

// decodeIssue explains why a line cannot be decoded.
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

// fieldNames are the fields of a line. The decoder ignores case.
var fieldNames = []string{"type", "id", "attributes", "groups", "version", "token"}

// miscasedField finds a field of a line that differs from a known one only in case.
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
