package schema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
)

// doublingSchema is a schema of n definitions, each of which refers to the next one twice.
func doublingSchema(n int, two func(ref map[string]any) map[string]any) json.RawMessage {
	defs := map[string]any{fmt.Sprintf("d%d", n): map[string]any{"type": "object"}}
	for i := range n {
		defs[fmt.Sprintf("d%d", i)] = two(map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", i+1)})
	}
	raw, err := json.Marshal(map[string]any{"$ref": "#/$defs/d0", "$defs": defs})
	if err != nil {
		panic(err)
	}
	return raw
}

// TestCheck_RejectsExponentialReferences: a schema whose references multiply is refused, with every
// keyword. One whose references are shared is not.
func TestCheck_RejectsExponentialReferences(t *testing.T) {
	for name, two := range map[string]func(ref map[string]any) map[string]any{
		"allOf": func(r map[string]any) map[string]any { return map[string]any{"allOf": []any{r, r}} },
		"anyOf": func(r map[string]any) map[string]any { return map[string]any{"anyOf": []any{r, r}} },
		"oneOf": func(r map[string]any) map[string]any { return map[string]any{"oneOf": []any{r, r}} },
		"if":    func(r map[string]any) map[string]any { return map[string]any{"if": r, "then": r, "else": r} },
		"not":   func(r map[string]any) map[string]any { return map[string]any{"not": r, "allOf": []any{r}} },
		"dependent": func(r map[string]any) map[string]any {
			return map[string]any{"$ref": r["$ref"], "dependentSchemas": map[string]any{"a": r}}
		},
		"within": func(r map[string]any) map[string]any {
			return map[string]any{"properties": map[string]any{"x": map[string]any{"allOf": []any{r, r}}}, "allOf": []any{r, r}}
		},
	} {
		if err := schema.Check(doublingSchema(22, two)); err == nil || !strings.Contains(err.Error(), "refers to more than") {
			t.Errorf("%s: %v", name, err)
		}
		if err := schema.Check(doublingSchema(5, two)); err != nil {
			t.Errorf("%s, five levels: %v", name, err)
		}
		// A schema that was stored earlier is refused when it is used.
		if issues := schema.Validate(doublingSchema(22, two), json.RawMessage(`[]`), "p"); len(issues) != 1 {
			t.Errorf("%s: %v", name, issues)
		}
	}
	shared := doublingSchema(200, func(r map[string]any) map[string]any {
		return map[string]any{"properties": map[string]any{"a": r, "b": r, "c": r}}
	})
	if err := schema.Check(shared); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"$dynamicRef":"#x","$defs":{"x":{"$dynamicAnchor":"x"}}}`, `{"maximum":1e9999999}`, `{"enum":[1e9999999]}`, `{"enum":[` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `]}`} {
		if err := schema.Check(json.RawMessage(bad)); err == nil {
			t.Errorf("%.40s is accepted as a schema", bad)
		}
	}
}

// TestValidate_BoundsEvaluations: a small schema and a small value can need much work together.
func TestValidate_BoundsEvaluations(t *testing.T) {
	recursive := json.RawMessage(`{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`)
	if err := schema.Check(recursive); err != nil {
		t.Fatal(err)
	}
	deep := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	}
	if issues := schema.Validate(recursive, deep(8), "p"); len(issues) > 0 {
		t.Error(issues)
	}
	if issues := schema.Validate(recursive, deep(60), "p"); len(issues) != 1 || issues[0].Code != "limit" {
		t.Error(issues)
	}
	if issues := schema.Validate(json.RawMessage(`{"$ref":"#"}`), json.RawMessage(`{}`), "p"); len(issues) != 1 {
		t.Error("a schema that refers to itself:", issues)
	}
	// Every item violates the schema; a hundred are reported.
	many := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(`"x",`, 60_000), ",") + "]")
	if issues := schema.Validate(json.RawMessage(`{"items":{"type":"integer"}}`), many, "p"); len(issues) != 100 || issues[0].Path != "p[0]" {
		t.Errorf("%d issues", len(issues))
	}
	if issues := schema.Validate(json.RawMessage(`{"items":{"type":"string","anyOf":[{"minLength":1},{"pattern":"x"}]}}`), many, "p"); len(issues) > 0 {
		t.Error("a long list:", issues)
	}
}

// TestValidate_RejectsUnworkableNumbers: numbers beyond float64 are refused at their path. Nothing computes
// their exact value.
func TestValidate_RejectsUnworkableNumbers(t *testing.T) {
	for _, s := range []string{`{"properties":{"n":{"minimum":1}}}`, `{"properties":{"n":{"multipleOf":3}}}`, `{"properties":{"n":{"type":"integer"}}}`, `{"properties":{"n":{"enum":[1]}}}`, `{"properties":{"n":{"const":1}}}`, `true`} {
		for _, n := range []string{"1e9999999", "-1e9999999", "1e-9999999", "1e400", "1e99999999999999999999", strings.Repeat("9", 500)} {
			issues := schema.Validate(json.RawMessage(s), json.RawMessage(`{"n":`+n+`}`), "p")
			if len(issues) != 1 || issues[0].Path != "p.n" || issues[0].Code != "number" {
				t.Errorf("%s of %.20s: %v", n, s, issues)
			}
		}
		if issues := schema.Validate(json.RawMessage(s), json.RawMessage(`{"n":3e300}`), "p"); len(issues) > 0 && issues[0].Code == "number" {
			t.Errorf("%s: %v", s, issues)
		}
	}
	if issues := schema.Validate(json.RawMessage(`{"uniqueItems":true}`), json.RawMessage(`[1e9999999,2]`), "p"); len(issues) != 1 || issues[0].Path != "p[0]" {
		t.Error(issues)
	}
	if issues := schema.Validate(json.RawMessage(`true`), json.RawMessage(strings.Repeat("[", 200)+strings.Repeat("]", 200)), "p"); len(issues) != 1 || issues[0].Code != "depth" {
		t.Error(issues)
	}
}

// TestValidate_ReportsFieldOfViolation: each violation is reported at the field it is about.
func TestValidate_ReportsFieldOfViolation(t *testing.T) {
	required := `{"required":["a"],"additionalProperties":false,"properties":{"a":{"type":"string"},"l":{"items":{"required":["x"]}},"m":{"properties":{"0":{"type":"string"}}}}}`
	for value, want := range map[string]string{
		`{"a":"x"}`:                            "",
		`{"l":[{"x":1},{}],"m":{"0":1},"z":1}`: "p.a required, p.l[1].x required, p.m.0 type, p.z additionalProperties",
		`{`:                                    "p json",
	} {
		var got []string
		for _, i := range schema.Validate([]byte(required), []byte(value), "p") {
			got = append(got, i.Path+" "+i.Code)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	for _, cycle := range []string{`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"}]}`} {
		if issues := schema.Validate([]byte(cycle), []byte(`{}`), "p"); len(issues) != 1 {
			t.Errorf("%s: %v", cycle, issues)
		}
	}
	if issues := schema.Validate([]byte("null"), []byte(`1`), "p"); len(issues) != 0 {
		t.Errorf("an absent schema refuses a value: %v", issues)
	}
	many := `{"items":{"type":"string"}}`
	if issues := schema.Validate([]byte(many), []byte("["+strings.Repeat("1,", 5000)+strconv.Itoa(1)+"]"), "p"); len(issues) != 100 {
		t.Errorf("%d issues", len(issues))
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object"}}}`,
		`{"items":{"minimum":1,"multipleOf":0.1}}`, `{"properties":{"a":{"$ref":"#"}},"unevaluatedProperties":false}`,
		`{"uniqueItems":true,"contains":{"const":1},"minContains":2}`, `{"pattern":"^(a|aa)+$","format":"date-time"}`, `{"$dynamicRef":"#x"}`, `{"$schema":"http://json-schema.org/draft-04/schema#","dependencies":{"a":["b"]}}`} {
		for _, v := range []string{`{}`, `[1e300,1e9999999,"x"]`, `{"a":{"a":{"a":1}}}`, `"aaaaaaaaaaaa"`, `[[],[1,1]]`} {
			f.Add([]byte(s), []byte(v))
		}
	}
	f.Fuzz(func(t *testing.T, s, v []byte) {
		if len(s) > 4<<10 || len(v) > 4<<10 {
			return
		}
		err := schema.Check(s)
		issues := schema.Validate(s, v, "p")
		if err != nil && !schema.Absent(s) && len(issues) == 0 {
			t.Errorf("%s is not a schema (%v), but %s fits it", s, err, v)
		}
		for _, i := range issues {
			if i.Path == "" || i.Code == "" {
				t.Errorf("%+v", i)
			}
		}
	})
}
