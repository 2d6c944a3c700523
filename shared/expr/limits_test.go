package expr_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestProgram_LimitsExplodingValues: expressions of a few hundred bytes that build astronomical values
// end soon, whatever they do with the value.
func TestProgram_LimitsExplodingValues(t *testing.T) {
	double := strings.Repeat(`.map(a, a + a + a + a)`, 24)
	share := strings.Repeat(`.map(a, [a, a, a, a])`, 20)
	for name, source := range map[string]string{
		"list returned":      `[[1]]` + double + `[0]`,
		"list joined":        `[["x"]]` + double + `[0].join("")`,
		"list searched":      `5 in [[1]]` + double + `[0]`,
		"tree returned":      `[1]` + share,
		"tree compared":      `[1]` + share + ` == [1]` + share,
		"tree in a map":      `{"a": [1]` + share + `}.a`,
		"second item":        `[[], ["x"]].map(x, [x]` + double + `[0].join(""))`,
		"text doubled":       `["x"]` + strings.Repeat(`.map(a, a + a + a + a)`, 24) + `[0]`,
		"text replaced":      `"aaaaaaaaaa"` + strings.Repeat(`.replace("a", "aaaaaaaaaa")`, 9),
		"loops":              `parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, parameters.l.all(d, a+b+c+d >= 0))))`,
		"compared in a loop": `parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, parameters.l == parameters.l)))`,
	} {
		p, err := expr.Compile(nil, source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list, _ := json.Marshal(map[string]any{"l": make([]int, 100)})
		_, err = p.Eval(expr.Scope{Context: expr.NewStepContext(list, nil, nil, nil)})
		if err == nil || !strings.Contains(err.Error(), "limit exceeded") {
			t.Errorf("%s: got %v, want a limit", name, err)
		}
	}
}

// TestProgram_HandlesResultsOfTenThousandEntities: within the limits, a global step can read the results
// of ten thousand entities, with every kind of macro.
func TestProgram_HandlesResultsOfTenThousandEntities(t *testing.T) {
	results := map[string]json.RawMessage{}
	for i := range 10_000 {
		results[fmt.Sprintf("sw-%05d", i)] = json.RawMessage(`{"version":"1.0.0","ok":true,"ports":[1,2,3]}`)
	}
	s := expr.Scope{Context: expr.NewStepContext(nil, expr.Results{"upgrade": results}, nil, nil)}
	for source, want := range map[string]string{
		`size(upgrade.results.filter(k, upgrade.results[k].ok))`:        `10000`,
		`size(upgrade.results.map(k, upgrade.results[k].version))`:      `10000`,
		`upgrade.results.all(k, upgrade.results[k].ports == [1,2,3])`:   `true`,
		`upgrade.results.exists_one(k, k == "sw-00007")`:                `true`,
		`upgrade.results.map(k, k)[9]`:                                  `"sw-00009"`,
		`size(upgrade.results.map(k, upgrade.results[k].ok, k)) > 9999`: `true`,
	} {
		p, err := expr.Compile(labels, source)
		if err != nil {
			t.Fatal(err)
		}
		v, err := p.Eval(s)
		raw, _ := json.Marshal(v)
		if err != nil || string(raw) != want {
			t.Errorf("%s: got %s, %v, want %s", source, raw, err, want)
		}
	}
	tmpl, err := expr.CompileTemplate(labels, "p", json.RawMessage(`{"a":"${upgrade.results}","b":"${upgrade.results}","c":"${upgrade.results}"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Eval(s); err == nil || !strings.Contains(err.Error(), "larger than") || !strings.Contains(err.Error(), `"upgrade.results"`) {
		t.Errorf("a template gives more than its limit: %v", err)
	}
}

// TestProgram_IteratesMapsInKeyOrder: plans are made again, so the same inputs must give the same
// value every time.
func TestProgram_IteratesMapsInKeyOrder(t *testing.T) {
	var fields []string
	for _, k := range strings.Split("q w e r t z u i o p", " ") {
		fields = append(fields, fmt.Sprintf("%q:%q", k, k))
	}
	object := "{" + strings.Join(fields, ",") + "}"
	want := `["e","i","o","p","q","r","t","u","w","z"]`
	s := expr.Scope{
		Context: expr.NewStepContext(json.RawMessage(`{"deep":[{"m":`+object+`}]}`), expr.Results{"upgrade": {
			"q": nil, "w": nil, "e": nil, "r": nil, "t": nil, "z": nil, "u": nil, "i": nil, "o": nil, "p": nil,
		}}, nil, nil),
		Entity: &expr.Entity{ID: "x", Type: "d", Attributes: json.RawMessage(`{"m":` + object + `}`)},
	}
	for _, source := range []string{
		`parameters.deep[0].m.map(k, k)`, `parameters.deep.map(x, x.m)[0].map(k, k)`, `entity.m.map(k, k)`,
		`upgrade.results.map(k, k)`, object + `.map(k, k)`, `[` + object + `].map(x, x)[0].map(k, k)`,
	} {
		for range 5 {
			p, err := expr.Compile(labels, source)
			if err != nil {
				t.Fatal(err)
			}
			v, err := p.Eval(s)
			raw, _ := json.Marshal(v)
			if err != nil || string(raw) != want {
				t.Errorf("%s: got %s, %v, want %s", source, raw, err, want)
			}
		}
	}
	p, err := expr.Compile(nil, `{true: 1, 2: 1, 1u: 1, "b": 1, "a": 1, 10: 1}.map(k, string(k))`)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Eval(expr.Scope{}); fmt.Sprint(v) != "[true 2 10 a b 1]" || err != nil {
		t.Errorf("keys of several types: %v, %v", v, err)
	}
}

func TestProgram_References(t *testing.T) {
	for source, want := range map[string]expr.References{
		`inventory.result.version == "1" && size(upgrade.results) > 0 && entity.site != ""`: {
			Labels: []string{"inventory", "upgrade"}, OwnResults: []string{"inventory"}, AllResults: []string{"upgrade"}, Entity: true},
		`report`:                      {Labels: []string{"report"}, OwnResults: []string{"report"}, AllResults: []string{"report"}},
		`report["result"]`:            {Labels: []string{"report"}, OwnResults: []string{"report"}},
		`report[entity.x]`:            {Labels: []string{"report"}, OwnResults: []string{"report"}, AllResults: []string{"report"}, Entity: true},
		`has(report.results)`:         {Labels: []string{"report"}, AllResults: []string{"report"}},
		`[1].all(entity, entity > 0)`: {},
		`[{"result": 1}].all(report, report.result > 0)`: {},
		`[entity].all(entity, entity.x > 0)`:             {Entity: true},
		`[1].all(entity, .entity.x > entity)`:            {Entity: true},
		`steps.upgrade.status == steps["report"].status`: {Steps: []string{"report", "upgrade"}},
		`{"a": parameters.x, execution.id: 1}`:           {Parameters: true, Execution: true},
		`parameters.x ? 1 : size([inventory.results])`:   {Parameters: true, Labels: []string{"inventory"}, AllResults: []string{"inventory"}},
	} {
		p, err := expr.Compile(labels, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got := p.References(); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", source, got, want)
		}
	}
}

// TestTemplate_PreservesNumbers: numbers keep their digits and their type. A number that JSON cannot
// hold is an error.
func TestTemplate_PreservesNumbers(t *testing.T) {
	s := expr.Scope{Context: expr.NewStepContext(json.RawMessage(
		`{"three":3.0,"big":9007199254740993,"max":18446744073709551615,"million":2e6,"beyond":1e400,"a":{"beyond":1e400}}`), nil, nil, nil)}
	for token, want := range map[string]string{
		`parameters.three`:             `{"a":3}`,
		`parameters.max`:               `{"a":18446744073709551615}`,
		`x ${parameters.million * 1.0`: `{"a":"x 2000000"}`,
		`x ${parameters.big`:           `{"a":"x 9007199254740993"}`,
		`'<&>'`:                        `{"a":"<&>"}`,
		`1.0 / 0.0`:                    "is not a JSON number",
		`x ${0.0 / 0.0`:                "is not a JSON number",
		`parameters.beyond`:            "1e400 is too large",
		`parameters.a`:                 "1e400 is too large",
		`{1: "a", "1": "b"}`:           "two keys",
		`type(1)`:                      "no JSON form",
		`1 // } comment`:               "not closed",
		"1 // } '\n":                   `{"a":1}`,
	} {
		text := "${" + token + "}"
		if strings.HasPrefix(token, "x ${") {
			text = token + "}"
		}
		raw, _ := json.Marshal(map[string]string{"a": text})
		var got string
		tmpl, err := expr.CompileTemplate(nil, "p", raw)
		if err == nil {
			var out json.RawMessage
			out, err = tmpl.Eval(s)
			got = string(out)
		}
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestLanguage_ConditionsMustBeBool(t *testing.T) {
	l, err := expr.NewLanguage(labels)
	if err != nil {
		t.Fatal(err)
	}
	for source, ok := range map[string]bool{
		`1 + 1`: false, `"true"`: false, `[true]`: false, `size(upgrade.results)`: false,
		`true`: true, `parameters.on`: true, `entity.x == 1`: true,
	} {
		if _, err := l.CompileCondition(source); (err == nil) != ok {
			t.Errorf("%s: %v", source, err)
		}
	}
	if _, err := expr.NewLanguage([]string{"entity"}); err == nil {
		t.Error("a reserved word is accepted as a label")
	}
}

// TestCompileQuery_KnowsOnlyEntity: a query that reads anything else would silently match nothing.
func TestCompileQuery_KnowsOnlyEntity(t *testing.T) {
	for _, source := range []string{`parameters.site == entity.site`, `steps.a.status == ""`, `execution.id == ""`, `entity.x + 1 > 0 ? 1 : 2`} {
		if _, err := expr.CompileQuery(source); err == nil {
			t.Errorf("%s compiles", source)
		}
	}
	q, err := expr.CompileQuery(`entity.type == "device" && entity.id.startsWith("sw")`)
	if err != nil {
		t.Fatal(err)
	}
	if !q.Match(workflow.Entity{Type: "device", ID: "sw-1"}) || q.Match(workflow.Entity{Type: "device", ID: "r-1"}) {
		t.Error("the query does not match by type and id")
	}
}

// TestCompileTemplate_ReportsEveryError: every token that does not compile is reported at its path. A
// template that compiles has the paths of its tokens.
func TestCompileTemplate_ReportsEveryError(t *testing.T) {
	l, err := expr.NewLanguage(labels)
	if err != nil {
		t.Fatal(err)
	}
	_, problems := l.CompileTemplate("p", json.RawMessage(`{"a":"${1 +}","b":["${parameters.x}","${nobody}"],"c":"${"}`))
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if want := []string{"p.a", "p.b[1]", "p.c"}; !reflect.DeepEqual(paths, want) {
		t.Errorf("got %v, want %v", paths, want)
	}
	tmpl, problems := l.CompileTemplate("p", json.RawMessage(`{"b":["x ${parameters.x} ${entity.y}"]}`))
	if len(problems) > 0 || len(tmpl.Tokens()) != 2 || tmpl.Tokens()[1].Path != "p.b[0]" || !tmpl.Tokens()[1].Program.References().Entity {
		t.Errorf("got %v, %+v", problems, tmpl.Tokens())
	}
	if _, problems = l.CompileTemplate("p", json.RawMessage(`{} {}`)); len(problems) != 1 {
		t.Error("two values are accepted as a template")
	}
}

// BenchmarkEntities evaluates a condition and a template for one entity.
func BenchmarkEntities(b *testing.B) {
	condition, err := expr.Compile(labels, `entity.site == "zrh" && entity.slots > 20 && inventory.result.version != parameters.target`)
	if err != nil {
		b.Fatal(err)
	}
	tmpl, err := expr.CompileTemplate(labels, "p", json.RawMessage(`{"target":"${parameters.target}","name":"${entity.site}/${entity.id}"}`))
	if err != nil {
		b.Fatal(err)
	}
	s := scope()
	b.Run("condition", func(b *testing.B) {
		for b.Loop() {
			if _, err := condition.EvalBool(s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("template", func(b *testing.B) {
		for b.Loop() {
			if _, err := tmpl.Eval(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
