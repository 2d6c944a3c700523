package httpapi

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// valueGenerator generates values that match a schema.
type valueGenerator struct {
	*rand.Rand
	root     map[string]any      // the document that references are resolved in
	existing map[string][]string // values of things that exist, by field name
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// oneIn is true once in n calls, at random.
func (g *valueGenerator) oneIn(n int) bool { return g.IntN(n) == 0 }

// value returns a value that matches a schema, as far as the generator supports its
// keywords. name is the name of the field.
func (g *valueGenerator) value(schema map[string]any, name string, depth int) any {
	s := g.merged(resolve(g.root, schema))
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok {
		return pick(g.Rand, list...)
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if list, ok := s[choice].([]any); ok && s["type"] == nil {
			return g.value(asObject(pick(g.Rand, list...)), name, depth)
		}
	}
	switch typeOf(g, s) {
	case "string":
		return g.stringFor(s, name)
	case "integer", "number":
		return g.numberFor(s)
	case "boolean":
		return g.oneIn(2)
	case "null":
		return nil
	case "array":
		low, high := intKeyword(s, "minItems", 0), intKeyword(s, "maxItems", 4)
		list := []any{}
		for range low + g.IntN(max(1, min(high, low+3)-low+1)) {
			list = append(list, g.value(asObject(s["items"]), name, depth+1))
		}
		return list
	case "object":
		return g.objectFor(s, depth)
	}
	return g.anything(depth)
}

// merged returns a schema with the keywords of those in its allOf, which are each about something else.
func (g *valueGenerator) merged(s map[string]any) map[string]any {
	list, _ := s["allOf"].([]any)
	if list == nil {
		return s
	}
	all := maps.Clone(s)
	delete(all, "allOf")
	for _, part := range list {
		for keyword, v := range g.merged(resolve(g.root, part)) {
			if own, both := all[keyword].([]any); both && keyword == "required" {
				v = append(slices.Clone(own), v.([]any)...)
			}
			all[keyword] = v
		}
	}
	return all
}

func typeOf(g *valueGenerator, s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		return pick(g.Rand, t...).(string)
	}
	switch {
	case s["properties"] != nil || s["additionalProperties"] != nil:
		return "object"
	case s["pattern"] != nil:
		return "string"
	}
	return ""
}

func (g *valueGenerator) objectFor(s map[string]any, depth int) any {
	v := map[string]any{}
	required, _ := s["required"].([]any)
	properties := asObject(s["properties"])
	for _, name := range sortedKeys(properties) {
		if slices.Contains(required, any(name)) || (depth < 6 && g.oneIn(3)) {
			v[name] = g.value(asObject(properties[name]), name, depth+1)
		}
	}
	for pattern, schema := range asObject(s["patternProperties"]) {
		for range g.IntN(3) {
			v[g.matchPattern(pattern)] = g.value(asObject(schema), "", depth+1)
		}
	}
	if additional, set := s["additionalProperties"]; properties == nil && s["patternProperties"] == nil && (!set || additional == true) {
		for range g.IntN(4) {
			v[g.word()] = g.anything(depth + 1)
		}
	}
	return v
}

func (g *valueGenerator) numberFor(s map[string]any) any {
	low, high := intKeyword(s, "minimum", -5), intKeyword(s, "maximum", 1000)
	if g.oneIn(4) {
		return pick(g.Rand, low, high)
	}
	return low + g.IntN(max(1, high-low+1))
}

func intKeyword(s map[string]any, name string, unset int) int {
	if n, ok := s[name].(float64); ok {
		return int(n)
	}
	return unset
}

func (g *valueGenerator) stringFor(s map[string]any, name string) string {
	if known := g.existing[name]; len(known) > 0 && !g.oneIn(3) {
		return pick(g.Rand, known...)
	}
	if s["format"] == "date-time" {
		at := time.Date(2026, 1, 1, 0, 0, g.IntN(1<<24), 0, time.UTC)
		return at.In(time.FixedZone("", g.IntN(24)*3600-12*3600)).Format(time.RFC3339Nano)
	}
	text := g.word()
	if pattern, ok := s["pattern"].(string); ok {
		text = g.matchPattern(pattern)
	}
	runes := []rune(text)
	if high := intKeyword(s, "maxLength", 1<<20); len(runes) > high {
		runes = runes[:high]
	}
	for len(runes) < intKeyword(s, "minLength", 0) {
		runes = append(runes, 'x')
	}
	return string(runes)
}

// oddStrings are strings that break programs.
var oddStrings = []string{
	"", " ", "null", "NaN", "-0", "é", "\u202e", "𝒳", "a\u0000b", "'; --", "<b>", "${parameters.x}", "${", "}", "%00", "../..", "__proto__", "constructor",
	"\ufeff", "1e999", "true", strings.Repeat("x", 300), "{{x}}", "\\", "\"", "a\r\nb: c",
}

func (g *valueGenerator) word() string {
	if g.oneIn(6) {
		return pick(g.Rand, oddStrings...)
	}
	return pick(g.Rand, "a", "device", "core", "x1", "target", "site") + pick(g.Rand, "", "", fmt.Sprint(g.IntN(5)))
}

// anything returns any JSON value.
func (g *valueGenerator) anything(depth int) any {
	switch n := g.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return g.oneIn(2)
	case n == 2:
		return pick[any](g.Rand, 0, -1, 1.5, 1e300, math.MaxInt64, -1e-300, 1<<53+1)
	case n < 6 || depth > 5:
		return g.word()
	case n == 6:
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.anything(depth+1))
		}
		return list
	}
	v := map[string]any{}
	for range g.IntN(3) {
		v[g.word()] = g.anything(depth + 1)
	}
	return v
}

var parsedPatterns sync.Map // string → *syntax.Regexp

// matchPattern returns a text that matches a pattern.
func (g *valueGenerator) matchPattern(pattern string) string {
	re, ok := parsedPatterns.Load(pattern)
	if !ok {
		p, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			panic(fmt.Sprintf("%q: %v", pattern, err))
		}
		re, _ = parsedPatterns.LoadOrStore(pattern, p)
	}
	var out strings.Builder
	g.writePattern(&out, re.(*syntax.Regexp))
	return out.String()
}

func (g *valueGenerator) writePattern(out *strings.Builder, re *syntax.Regexp) {
	repeat := func(low, high int) {
		for range low + g.IntN(high-low+1) {
			g.writePattern(out, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		out.WriteRune(g.runeIn(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteRune(rune('a' + g.IntN(26)))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			g.writePattern(out, sub)
		}
	case syntax.OpAlternate:
		g.writePattern(out, pick(g.Rand, re.Sub...))
	case syntax.OpStar:
		repeat(0, 3)
	case syntax.OpPlus:
		repeat(1, 4)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		high := re.Max
		if high < 0 || high > re.Min+8 {
			high = re.Min + 8
			if re.Max > 0 && g.oneIn(20) {
				high = re.Max
			}
		}
		repeat(re.Min, high)
	}
}

// runeIn returns a rune of a class, an ASCII one if there is any.
func (g *valueGenerator) runeIn(class []rune) rune {
	var ascii []rune
	for i := 0; i < len(class); i += 2 {
		for r := class[i]; r <= min(class[i+1], unicode.MaxASCII); r++ {
			if r >= ' ' {
				ascii = append(ascii, r)
			}
		}
	}
	if len(ascii) == 0 {
		return class[0]
	}
	return pick(g.Rand, ascii...)
}

// corrupt changes one place of a value.
func (g *valueGenerator) corrupt(v any) any {
	switch v := v.(type) {
	case map[string]any:
		names := sortedKeys(v)
		switch n := g.IntN(4); {
		case len(names) == 0 || n == 0:
			v[pick(g.Rand, "unknown", "", "Workflow", "type", "id")] = g.anything(0)
		case n == 1:
			delete(v, pick(g.Rand, names...))
		default:
			name := pick(g.Rand, names...)
			v[name] = g.corrupt(v[name])
		}
		return v
	case []any:
		if len(v) > 0 && !g.oneIn(3) {
			i := g.IntN(len(v))
			v[i] = g.corrupt(v[i])
			return v
		}
		if g.oneIn(10) {
			return slices.Repeat([]any{g.anything(4)}, 1100)
		}
		return append(v, g.anything(0))
	case string:
		if g.oneIn(2) && len(v) > 0 {
			i := g.IntN(len(v))
			return v[:i] + pick(g.Rand, oddStrings...) + v[i:]
		}
	}
	if g.oneIn(4) {
		var deep any = "x"
		for range pick(g.Rand, 10, 60, 110, 2000) {
			deep = []any{deep}
		}
		return deep
	}
	return g.anything(0)
}

func sortedKeys[T any](v map[string]T) []string {
	var names []string
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
