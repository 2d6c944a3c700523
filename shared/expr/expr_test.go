package expr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var labels = []string{"inventory", "upgrade", "report"}

func scope() expr.Scope {
	c := expr.NewStepContext(
		json.RawMessage(`{"target":"2.0.0","n":3,"big":9007199254740993,"f":1.5,"list":[1,"a"],"none":null,"on":true}`),
		expr.Results{
			"inventory": {"sw-1": json.RawMessage(`{"version":"1.0.0"}`), "sw-2": json.RawMessage(`{"version":"2.0.0"}`)},
			"report":    {"": json.RawMessage(`{"ok":true}`)},
		},
		map[string]string{"inventory": "COMPLETED"},
		map[string]any{"id": "x"},
	)
	return expr.Scope{Context: c, Entity: &expr.Entity{Type: "device", ID: "sw-1", Attributes: json.RawMessage(`{"site":"zrh","slots":48}`)}}
}

func TestProgram_Eval(t *testing.T) {
	for source, want := range map[string]string{
		`parameters.target`:                           `"2.0.0"`,
		`parameters.n + 1`:                            `4`,
		`parameters.big`:                              `9007199254740993`,
		`parameters.f * 2.0`:                          `3`,
		`parameters.n > 2.5`:                          `true`,
		`entity.site + "/" + entity.id`:               `"zrh/sw-1"`,
		`entity.type`:                                 `"device"`,
		`entity.slots / 2`:                            `24`,
		`inventory.result.version`:                    `"1.0.0"`,
		`size(inventory.results)`:                     `2`,
		`inventory.results["sw-2"].version`:           `"2.0.0"`,
		`report.result.ok`:                            `true`,
		`steps.inventory.status`:                      `"COMPLETED"`,
		`execution.id`:                                `"x"`,
		`size(upgrade.results)`:                       `0`,
		`{"a": [1, 2.0, null], "b": {"c": b"x"}}`:     `{"a":[1,2,null],"b":{"c":"eA=="}}`,
		`duration("90s")`:                             `"1m30s"`,
		`timestamp("2026-01-02T03:04:05Z")`:           `"2026-01-02T03:04:05Z"`,
		`"sw-1".startsWith("sw") ? "yes" : "no"`:      `"yes"`,
		`has(inventory.result) && !has(entity.model)`: `true`,
	} {
		p, err := expr.Compile(labels, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		v, err := p.Eval(scope())
		raw, _ := json.Marshal(v)
		if err != nil || string(raw) != want {
			t.Errorf("%s: got %s, %v, want %s", source, raw, err, want)
		}
	}
}

// TestProgram_EvalErrorNamesExpression: an expression that cannot be evaluated gives an error that
// names it.
func TestProgram_EvalErrorNamesExpression(t *testing.T) {
	for _, source := range []string{
		`parameters.missing`, `entity.model`, `upgrade.result.version`, `1 / (parameters.n - 3)`,
		`inventory.results["sw-9"]`, `[1,2][5]`,
	} {
		p, err := expr.Compile(labels, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if v, err := p.Eval(scope()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", source)) {
			t.Errorf("%s: got %v, %v, want an error that names it", source, v, err)
		}
	}
	p, err := expr.Compile(labels, `parameters.n`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.EvalBool(scope()); err == nil {
		t.Error("a number is accepted as a condition")
	}
}

func TestCompile_ErrorsHavePosition(t *testing.T) {
	for source, column := range map[string]int{`1 +`: 4, `nobody.knows`: 1, `parameters.n +* 2`: 15} {
		_, err := expr.Compile(labels, source)
		var e *expr.Error
		if !errors.As(err, &e) || e.Line != 1 || e.Column != column {
			t.Errorf("%s: %+v, want line 1 column %d", source, err, column)
		}
	}
	if _, err := expr.Compile(nil, strings.Repeat("(", 2000)+"1"+strings.Repeat(")", 2000)); err == nil {
		t.Error("2,000 nested parentheses compile")
	}
	if _, err := expr.Compile(nil, `"a"`+strings.Repeat(` + "a"`, 40)); err == nil {
		t.Error("40 nested operators compile")
	}
	if _, err := expr.Compile(nil, `true`+strings.Repeat(` && true`, 200)); err != nil {
		t.Errorf("a flat condition does not compile: %v", err)
	}
	if _, err := expr.Compile(nil, "'"+strings.Repeat("x", expr.MaxSource)+"'"); err == nil {
		t.Error("an expression over the limit compiles")
	}
}

// TestPlainMessage_NamesUnexpectedToken: a syntax error has its position and names the unexpected
// token. It does not list every token that the grammar accepts.
// A definition that says the same in several places compiles it once, and a condition is still one that may be a
// bool.
func TestLanguage_CompilesEachExpressionOnce(t *testing.T) {
	l, err := expr.NewLanguage([]string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.Compile(`a.n`)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Compile(`a.n`); err != nil || again != first {
		t.Errorf("compiled again: %v", err)
	}
	if condition, err := l.CompileCondition(`a.n`); err != nil || condition != first {
		t.Errorf("compiled again as a condition: %v", err)
	}
	if _, err := l.Compile(`"text"`); err != nil {
		t.Fatal(err)
	}
	if _, err := l.CompileCondition(`"text"`); err == nil {
		t.Error("a text is a condition")
	}
	for range 2 {
		if _, err := l.Compile(`b.n`); err == nil {
			t.Error("an unknown name compiles")
		}
	}
}

func TestPlainMessage_NamesUnexpectedToken(t *testing.T) {
	for source, want := range map[string]struct {
		column  int
		message string
	}{
		"a ==":      {5, "unexpected end of the expression"},
		"a b":       {3, "unexpected 'b'"},
		"(a":        {3, "')' is missing at the end of the expression"},
		"a && && b": {6, "unexpected '&&'"},
		"a = b":     {3, "unexpected '='; write == to compare"},
		"a == 'b":   {6, "unexpected ''b'"},
	} {
		_, err := expr.Compile([]string{"a", "b"}, source)
		var e *expr.Error
		if !errors.As(err, &e) || e.Message != want.message || e.Line != 1 || e.Column != want.column {
			t.Errorf("%s: %d:%d %v, want column %d and %q", source, e.Line, e.Column, err, want.column, want.message)
		}
	}
}

// TestProgram_CostLimitEndsEvaluation: no evaluation goes on for ever.
func TestProgram_CostLimitEndsEvaluation(t *testing.T) {
	p, err := expr.Compile(nil, `parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, parameters.l.all(d, a+b+c+d >= 0))))`)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := json.Marshal(map[string]any{"l": make([]int, 100)})
	_, err = p.Eval(expr.Scope{Context: expr.NewStepContext(list, nil, nil, nil)})
	if err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("got %v, want the cost limit", err)
	}
}

func TestReferences_Contains(t *testing.T) {
	p, err := expr.Compile(labels, `inventory.result.version == "1" && size(upgrade.results) > 0 && entity.site != ""`)
	if err != nil {
		t.Fatal(err)
	}
	r := p.References()
	if fmt.Sprint(r.OwnResults, r.AllResults, r.Labels, r.Entity) != "[inventory] [upgrade] [inventory upgrade] true" {
		t.Errorf("got %+v", r)
	}
	if p, err = expr.Compile(labels, `report`); err != nil || !p.References().Contains("report") {
		t.Errorf("a label without a field is not found: %v", err)
	}
}

// TestTemplate_SingleTokenKeepsType is N15 and N16: a string that is one token keeps the type of the
// value. Anything else arrives as it was written.
func TestTemplate_SingleTokenKeepsType(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":"${parameters.n}"}`:                                `{"a":3}`,
		`{"a":"${parameters.big}"}`:                              `{"a":9007199254740993}`,
		`{"a":"n=${parameters.n}, ${parameters.on}"}`:            `{"a":"n=3, true"}`,
		`{"a":"${parameters.list}","b":["x","${entity.slots}"]}`: `{"a":[1,"a"],"b":["x",48]}`,
		`{"a":"${parameters.none}"}`:                             `{"a":null}`,
		`{"a":"$${not a token}"}`:                                `{"a":"${not a token}"}`,
		`{"a":"${'}' + {'k': 'v}'}['k']}"}`:                      `{"a":"}v}"}`,
		`{ "b" : 1.0, "a":"{{ braces }}" }`:                      `{ "b" : 1.0, "a":"{{ braces }}" }`,
		`{"a":"costs $5"}`:                                       `{"a":"costs $5"}`,
		`{"v":"v${parameters.f}"}`:                               `{"v":"v1.5"}`,
	} {
		tmpl, err := expr.CompileTemplate(labels, "parameters", json.RawMessage(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got, err := tmpl.Eval(scope())
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", raw, got, err, want)
		}
	}
}

// TestTemplate_RejectsNullListAndMapInText is N15: a null, list or map inside a string is an error that
// names the expression and the path.
func TestTemplate_RejectsNullListAndMapInText(t *testing.T) {
	for _, token := range []string{"parameters.none", "parameters.list", "parameters", "parameters.missing"} {
		tmpl, err := expr.CompileTemplate(labels, "steps[0].parameters", json.RawMessage(`{"deep":{"a":["x ${`+token+`}"]}}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = tmpl.Eval(scope())
		if err == nil || !strings.Contains(err.Error(), "steps[0].parameters.deep.a[0]") || !strings.Contains(err.Error(), token) {
			t.Errorf("%s: got %v", token, err)
		}
	}
	for _, raw := range []string{`{"a":"${open"}`, `{"a":"${'}"}`, `{"a":"${}"}`, `{"a":"${1 +}"}`, `{`} {
		if _, err := expr.CompileTemplate(labels, "parameters", json.RawMessage(raw)); err == nil {
			t.Errorf("%s compiles", raw)
		}
	}
}

func TestQuery_Match(t *testing.T) {
	q, err := expr.CompileQuery(`entity.site == "zrh" && entity.slots > 20`)
	if err != nil {
		t.Fatal(err)
	}
	for attributes, want := range map[string]bool{
		`{"site":"zrh","slots":48}`: true, `{"site":"gva","slots":48}`: false, `{"site":"zrh"}`: false, `{}`: false,
	} {
		if got := q.Match(workflow.Entity{Type: "d", ID: "x", Attributes: json.RawMessage(attributes)}); got != want {
			t.Errorf("%s: %v", attributes, got)
		}
	}
}

// TestQuery_MatchesGroups: a query sees the groups of an entity, unless an attribute has that
// name.
func TestQuery_MatchesGroups(t *testing.T) {
	q, err := expr.CompileQuery(`"core" in entity.groups`)
	if err != nil {
		t.Fatal(err)
	}
	if not, err := expr.CompileQuery(`!("core" in entity.groups)`); err != nil || !not.Match(workflow.Entity{}) {
		t.Errorf("an entity without groups does not match: %v", err)
	}
	for _, test := range []struct {
		entity workflow.Entity
		want   bool
	}{
		{workflow.Entity{Groups: []string{"edge", "core"}}, true},
		{workflow.Entity{Groups: []string{"edge"}}, false},
		{workflow.Entity{}, false},
		{workflow.Entity{Groups: []string{"core"}, Attributes: json.RawMessage(`{"groups":[]}`)}, false},
	} {
		if got := q.Match(test.entity); got != test.want {
			t.Errorf("%+v: %v", test.entity, got)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"${parameters.n}", "a ${'}'} b", "$${x}", "${r'\\'}", "${", "${\"\"\"\"}\"\"\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := json.Marshal(map[string]string{"a": s})
		if err != nil {
			return // JSON cannot hold the string
		}
		tmpl, err := expr.CompileTemplate(labels, "p", raw)
		if err != nil {
			return
		}
		got, err := tmpl.Eval(scope())
		if err == nil && !json.Valid(got) {
			t.Errorf("%q gives %s, which is not JSON", s, got)
		}
	})
}

// FuzzEval: in every language, compiling any text gives a program or an error with its
// position, and evaluating the program gives JSON or an error.
func FuzzEval(f *testing.F) {
	for _, s := range []string{
		"inventory.result.version == parameters.target", "size(upgrade.results.filter(k, upgrade.results[k].ok))", "steps[entity.x]",
		"entity('site', 'zrh').open && now > timestamp('2026-01-01T00:00:00Z')", "error.details.code in [1, 2] && attempt < 3",
		"entity.ports.map(p, entity.id + ':' + p)", "{1: [2u, 3.0, b'x', null]}[1][0]", "'a'.matches('(a+)+$')", "optional.of(1)", "x ? y",
		`parameters.target.replace("", parameters.target).replace("1", "22", 3)`, `["a", entity.id].join(parameters.target)`, `"%s %d %.3f %x".format([entity, 1, 2.0, "a"])`,
		`strings.quote(entity.id).split("").map(c, c.lastIndexOf("a", 1))`,
	} {
		f.Add(s)
	}
	steps := func() (*expr.Language, error) { return expr.NewLanguage(labels) }
	f.Fuzz(func(t *testing.T, source string) {
		for _, language := range []func() (*expr.Language, error){steps, expr.ParameterLanguage, expr.ExpandLanguage, expr.FailureLanguage, expr.StartLanguage} {
			l, err := language()
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.Compile(source)
			if err != nil {
				var e *expr.Error
				if !errors.As(err, &e) || e.Source != source || e.Line < 0 || e.Column < 0 {
					t.Errorf("%q: %#v", source, err)
				}
				continue
			}
			s := scope()
			s.Variables = map[string]any{"now": time.Unix(1e9, 0), "error": map[string]any{"code": "X"}, "attempt": int64(1)}
			s.LookupEntity = func(string, string) (json.RawMessage, bool) { return json.RawMessage(`{"open":true}`), true }
			v, err := p.Eval(s)
			if err != nil {
				continue
			}
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%q gives %v: %v", source, v, err)
			}
		}
	})
}

func BenchmarkCondition(b *testing.B) {
	p, err := expr.Compile(labels, `inventory.result.version != parameters.target`)
	if err != nil {
		b.Fatal(err)
	}
	s := scope()
	for b.Loop() {
		if _, err := p.EvalBool(s); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEntity_IdentityHidesAttributes: type and id name the entity that is locked, even if it has
// attributes of these names.
func TestEntity_IdentityHidesAttributes(t *testing.T) {
	q, err := expr.CompileQuery(`entity.id == "sw-1" && entity.type == "device"`)
	if err != nil {
		t.Fatal(err)
	}
	attributes := json.RawMessage(`{"id":"other","type":"site"}`)
	if !q.Match(workflow.Entity{Type: "device", ID: "sw-1", Attributes: attributes}) {
		t.Error("an attribute hides the type or the id")
	}
	if q.Match(workflow.Entity{Type: "site", ID: "other", Attributes: json.RawMessage(`{"id":"sw-1","type":"device"}`)}) {
		t.Error("attributes replace the type and the id")
	}
}

// TestKindOf: each kind of evaluated value has a name that people know.
func TestKindOf(t *testing.T) {
	s := expr.ParameterScope(json.RawMessage(`{"v":[null,true,"x",[1],{"a":1},5,1.5]}`))
	p, err := expr.Compile(nil, "parameters.v")
	if err != nil {
		t.Fatal(err)
	}
	values, err := p.Eval(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"null", "true or false", "a text", "a list", "an object", "a number", "a number"} {
		if got := expr.KindOf(values.([]any)[i]); got != want {
			t.Errorf("value %d is %s, want %s", i, got, want)
		}
	}
}
