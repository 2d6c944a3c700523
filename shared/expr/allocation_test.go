package expr_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// allocatedMiB is how much memory a function allocates, in MiB. Memory that is freed again
// counts.
func allocatedMiB(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) >> 20
}

// maxAllocatedMiB is how much an evaluation may allocate in all: a few strings of the
// largest size, each with its runes.
const maxAllocatedMiB = 256

// TestProgram_TextFunctionsAllocateLittle: every function that builds strings is called with the
// largest arguments, and with those that give the largest results.
func TestProgram_TextFunctionsAllocateLittle(t *testing.T) {
	parameters, err := json.Marshal(map[string]any{
		"s": strings.Repeat("a", 200_000), "mb": strings.Repeat("a", 3<<20), "q": strings.Repeat(`"\`, 1<<19),
		"words": strings.Split(strings.Repeat("ab ", 3000), " "), "numbers": make([]float64, 300_000), "turns": make([]int, 2000),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := expr.ParameterScope(parameters)
	decode, err := expr.Compile(nil, `size(parameters) > 0`)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := decode.EvalBool(s); !ok || err != nil { // decodes the parameters, which is not counted below
		t.Fatal(err)
	}
	repeated := func(call string) string { // as often as the cost allows, ignoring errors
		return `parameters.turns.all(x, parameters.turns.all(y, size(` + call + `) >= 0 || true))`
	}
	for _, call := range []string{
		`parameters.s.replace("", parameters.s)`, `parameters.s.replace("a", parameters.s, 1000)`, `parameters.mb.replace("a", "bb")`, `parameters.mb.replace("a", "bbbb")`,
		`parameters.words.join(parameters.s)`, `parameters.words.join(parameters.mb)`, `parameters.mb.split("")`, `parameters.mb.split("", 1000000)`, `parameters.s.split("")`,
		`"%s%s".format([parameters.mb, parameters.mb])`, `"%x".format([parameters.mb])`, `"%s".format([parameters.numbers])`, `"%.99f".format([1e308])`,
		`("%.99f".replace("", "%.99f") + "%.99e").format(parameters.numbers)`, `"%s".format([[parameters.words, parameters.words, parameters.mb]])`,
		`strings.quote(parameters.q)`, `strings.quote(parameters.s)`, `parameters.mb.lowerAscii()`, `parameters.mb.upperAscii()`, `parameters.mb.reverse()`,
		`parameters.mb.trim()`, `parameters.mb.substring(1)`, `parameters.mb.substring(1, 3)`, `parameters.mb.charAt(5)`,
		`parameters.mb + parameters.mb`, `bytes(parameters.mb)`, `string(bytes(parameters.mb))`, `parameters.numbers + parameters.numbers`,
		`[parameters.mb.indexOf(parameters.s + "b")]`, `[parameters.mb.lastIndexOf("b" + parameters.s)]`, `[parameters.mb.matches("(a|aa)+b")]`,
	} {
		for _, source := range []string{`size(` + call + `) >= 0`, repeated(call)} {
			p, err := expr.Compile(nil, source)
			if err != nil {
				t.Errorf("%s: %v", source, err)
				continue
			}
			if mib := allocatedMiB(func() { _, _ = p.EvalBool(s) }); mib > maxAllocatedMiB {
				t.Errorf("%s allocates %d MiB", source, mib)
			}
		}
	}
}

// TestQuery_RejectsHugeValueBeforeAllocating: a value that is too large is refused before its memory is
// allocated. Without that, this test kills the process.
func TestQuery_RejectsHugeValueBeforeAllocating(t *testing.T) {
	q, err := expr.CompileQuery(`["` + strings.Repeat("a", 900) + `"].map(x, x.replace("",x)).exists(y, y.replace("", y) == "")`)
	if err != nil {
		t.Fatal(err)
	}
	mib := allocatedMiB(func() {
		if q.Match(workflow.Entity{Type: "d", ID: "x"}) {
			t.Error("the query matches")
		}
	})
	if mib > maxAllocatedMiB {
		t.Errorf("the query allocates %d MiB", mib)
	}
}

// TestProgram_CostLimitBoundsWork: an expression that loops until its limit makes few turns if each
// of them walks a large value.
func TestProgram_CostLimitBoundsWork(t *testing.T) {
	turns, walked := make([]int, 1000), make([]int, 20_000)
	parameters, err := json.Marshal(map[string]any{"turns": turns, "l": walked, "deep": map[string]any{"l": walked}, "s": strings.Repeat("a", 60_000)})
	if err != nil {
		t.Fatal(err)
	}
	for body, maxTurns := range map[string]int{
		`size(parameters.s) > 0`:                200, // six thousand units a turn
		`!(5 in parameters.l)`:                  600,
		`parameters.l == parameters.deep.l`:     600,
		`size(parameters.l + parameters.l) > 0`: 300,
		`"x%s".format([parameters.s]) != ""`:    30,
		`!parameters.s.matches("(a|aa)+b")`:     60,
		`!parameters.s.matches("(a{90})b|c")`:   4,
		`parameters.s < parameters.s + "b"`:     80,
		`strings.quote(parameters.s) != ""`:     30,
		`parameters.s.indexOf("b") < 0`:         200,
		`bytes(parameters.s) != b""`:            100,
	} {
		l, err := expr.StartLanguage()
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.Compile(`parameters.turns.all(x, ` + body + `)`)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if cost := p.Cost(expr.ParameterScope(parameters)); cost < 1_000_000 {
			t.Errorf("%s: a thousand turns cost %d", body, cost)
		}
		one, err := l.Compile(`parameters.turns[0] == 0 && ` + body)
		if err != nil {
			t.Fatal(err)
		}
		if cost := one.Cost(expr.ParameterScope(parameters)); cost*uint64(maxTurns) < 1_000_000 {
			t.Errorf("%s costs %d; that makes more than %d turns", body, cost, maxTurns)
		}
	}
}

// TestProgram_TextFunctionsMatchLibrary: indices count characters, from either end.
func TestProgram_TextFunctionsMatchLibrary(t *testing.T) {
	for source, want := range map[string]string{
		`"äöü".indexOf("ü")`: "2", `"äöüä".lastIndexOf("ä")`: "3", `"aXbX".indexOf("X", 2)`: "3", `"aXbX".lastIndexOf("X", 2)`: "1",
		`"abc".indexOf("")`: "0", `"abc".indexOf("", 2)`: "2", `"abc".indexOf("", 9)`: "3", `"abc".lastIndexOf("")`: "3", `"abc".lastIndexOf("", 1)`: "1",
		`"abc".indexOf("d")`: "-1", `"abc".indexOf("a", 3)`: "-1", `"abc".lastIndexOf("c", 3)`: "-1", `"abc".lastIndexOf("c", 2)`: "2", `"abc".lastIndexOf("bc", 1)`: "1",
		`"".indexOf("a")`: "-1", `"".lastIndexOf("a")`: "-1", `"ab".lastIndexOf("abc")`: "-1", `"äbäb".lastIndexOf("äb", 1)`: "0",
		`"abc".indexOf("a", -1)`: "out of range", `"abc".lastIndexOf("a", -1)`: "out of range",
		`"a-b-c".replace("-", "+")`: "a+b+c", `"a-b-c".replace("-", "", 1)`: "ab-c", `"a-b-c".replace("-", "+", -1)`: "a+b+c", `"ab".replace("", "-")`: "-a-b-",
		`"a,b".split(",")`: "[a b]", `"a,b,c".split(",", 2)`: "[a b,c]", `"a,b".split(",", -1)`: "[a b]", `["a","b"].join()`: "ab", `["a","b"].join("-")`: "a-b",
		`"%d %s %x".format([1, [2, "c"], "k"])`: `1 [2, c] 6b`, `strings.quote("a\"b")`: `"a\"b"`,
		`"abc".matches("^a.c$")`: "true", `matches("abc", "b$")`: "false", `"abc".matches("a" + "(")`: "missing closing", `"abc".matches("((a{100}){9}c){" + "1}(b{200})")`: "program size",
	} {
		p, err := expr.Compile(nil, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		v, err := p.Eval(expr.Scope{})
		got := fmt.Sprint(v)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
	for _, source := range []string{`"a".matches("(")`, `"a".matches("(a{1000}){1000}")`} {
		if _, err := expr.Compile(nil, source); err == nil {
			t.Errorf("%s compiles", source)
		}
	}
}
