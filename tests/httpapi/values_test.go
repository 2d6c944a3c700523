package httpapi

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// valueGenerator makes values from schemas. words are what exists in the world, by the
// name under which it is asked for.
type valueGenerator struct {
	*rand.Rand
	root  map[string]any // the document that references are within
	words map[string][]string
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// oneIn is one in n.
func (m *valueGenerator) oneIn(n int) bool { return m.IntN(n) == 0 }

// value is one that fits the schema, as far as this program understands it. name
// is the field's.
func (m *valueGenerator) value(schema map[string]any, name string, depth int) any {
	s := resolve(m.root, schema)
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok {
		return pick(m.Rand, list...)
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if list, ok := s[choice].([]any); ok && s["type"] == nil {
			return m.value(asObject(pick(m.Rand, list...)), name, depth)
		}
	}
	switch typeOf(m, s) {
	case "string":
		return m.stringFor(s, name)
	case "integer", "number":
		return m.numberFor(s)
	case "boolean":
		return m.oneIn(2)
	case "null":
		return nil
	case "array":
		least, most := intKeyword(s, "minItems", 0), intKeyword(s, "maxItems", 4)
		list := []any{}
		for range least + m.IntN(max(1, min(most, least+3)-least+1)) {
			list = append(list, m.value(asObject(s["items"]), name, depth+1))
		}
		return list
	case "object":
		return m.objectFor(s, depth)
	}
	return m.anything(depth)
}

func typeOf(m *valueGenerator, s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		return pick(m.Rand, t...).(string)
	}
	switch {
	case s["properties"] != nil || s["additionalProperties"] != nil:
		return "object"
	case s["pattern"] != nil:
		return "string"
	}
	return ""
}

func (m *valueGenerator) objectFor(s map[string]any, depth int) any {
	v := map[string]any{}
	required, _ := s["required"].([]any)
	properties := asObject(s["properties"])
	for _, name := range sortedKeys(properties) {
		if slices.Contains(required, any(name)) || (depth < 6 && m.oneIn(3)) {
			v[name] = m.value(asObject(properties[name]), name, depth+1)
		}
	}
	for pattern, of := range asObject(s["patternProperties"]) {
		for range m.IntN(3) {
			v[m.matchPattern(pattern)] = m.value(asObject(of), "", depth+1)
		}
	}
	if open, said := s["additionalProperties"]; properties == nil && s["patternProperties"] == nil && (!said || open == true) {
		for range m.IntN(4) {
			v[m.word()] = m.anything(depth + 1)
		}
	}
	return v
}

func (m *valueGenerator) numberFor(s map[string]any) any {
	least, most := intKeyword(s, "minimum", -5), intKeyword(s, "maximum", 1000)
	if m.oneIn(4) {
		return pick(m.Rand, least, most)
	}
	return least + m.IntN(max(1, most-least+1))
}

func intKeyword(s map[string]any, name string, otherwise int) int {
	if n, ok := s[name].(float64); ok {
		return int(n)
	}
	return otherwise
}

func (m *valueGenerator) stringFor(s map[string]any, name string) string {
	if known := m.words[name]; len(known) > 0 && !m.oneIn(3) {
		return pick(m.Rand, known...)
	}
	if s["format"] == "date-time" {
		at := time.Date(2026, 1, 1, 0, 0, m.IntN(1<<24), 0, time.UTC)
		return at.In(time.FixedZone("", m.IntN(24)*3600-12*3600)).Format(time.RFC3339Nano)
	}
	text := m.word()
	if pattern, ok := s["pattern"].(string); ok {
		text = m.matchPattern(pattern)
	}
	runes := []rune(text)
	if most := intKeyword(s, "maxLength", 1<<20); len(runes) > most {
		runes = runes[:most]
	}
	for len(runes) < intKeyword(s, "minLength", 0) {
		runes = append(runes, 'x')
	}
	return string(runes)
}

// oddStrings are texts that have broken programs.
var oddStrings = []string{
	"", " ", "null", "NaN", "-0", "é", "\u202e", "𝒳", "a\u0000b", "'; --", "<b>", "${parameters.x}", "${", "}", "%00", "../..", "__proto__", "constructor",
	"\ufeff", "1e999", "true", strings.Repeat("x", 300), "{{x}}", "\\", "\"", "a\r\nb: c",
}

func (m *valueGenerator) word() string {
	if m.oneIn(6) {
		return pick(m.Rand, oddStrings...)
	}
	return pick(m.Rand, "a", "device", "core", "x1", "target", "site") + pick(m.Rand, "", "", fmt.Sprint(m.IntN(5)))
}

// anything is any JSON.
func (m *valueGenerator) anything(depth int) any {
	switch n := m.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return m.oneIn(2)
	case n == 2:
		return pick[any](m.Rand, 0, -1, 1.5, 1e300, math.MaxInt64, -1e-300, 1<<53+1)
	case n < 6 || depth > 5:
		return m.word()
	case n == 6:
		list := []any{}
		for range m.IntN(3) {
			list = append(list, m.anything(depth+1))
		}
		return list
	}
	v := map[string]any{}
	for range m.IntN(3) {
		v[m.word()] = m.anything(depth + 1)
	}
	return v
}

var parsedPatterns sync.Map // patterns

// matchPattern is a text that a pattern matches.
func (m *valueGenerator) matchPattern(pattern string) string {
	re, ok := parsedPatterns.Load(pattern)
	if !ok {
		p, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			panic(fmt.Sprintf("%q: %v", pattern, err))
		}
		re, _ = parsedPatterns.LoadOrStore(pattern, p)
	}
	var out strings.Builder
	m.writePattern(&out, re.(*syntax.Regexp))
	return out.String()
}

func (m *valueGenerator) writePattern(out *strings.Builder, re *syntax.Regexp) {
	again := func(least, most int) {
		for range least + m.IntN(most-least+1) {
			m.writePattern(out, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		out.WriteRune(m.runeIn(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteRune(rune('a' + m.IntN(26)))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			m.writePattern(out, sub)
		}
	case syntax.OpAlternate:
		m.writePattern(out, pick(m.Rand, re.Sub...))
	case syntax.OpStar:
		again(0, 3)
	case syntax.OpPlus:
		again(1, 4)
	case syntax.OpQuest:
		again(0, 1)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 || most > re.Min+8 {
			most = re.Min + 8
			if re.Max > 0 && m.oneIn(20) {
				most = re.Max
			}
		}
		again(re.Min, most)
	}
}

// runeIn is a rune of a class, of its ASCII part if it has one.
func (m *valueGenerator) runeIn(class []rune) rune {
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
	return pick(m.Rand, ascii...)
}

// corrupt changes one place of a value.
func (m *valueGenerator) corrupt(v any) any {
	switch v := v.(type) {
	case map[string]any:
		names := sortedKeys(v)
		switch n := m.IntN(4); {
		case len(names) == 0 || n == 0:
			v[pick(m.Rand, "unknown", "", "Workflow", "type", "id")] = m.anything(0)
		case n == 1:
			delete(v, pick(m.Rand, names...))
		default:
			name := pick(m.Rand, names...)
			v[name] = m.corrupt(v[name])
		}
		return v
	case []any:
		if len(v) > 0 && !m.oneIn(3) {
			i := m.IntN(len(v))
			v[i] = m.corrupt(v[i])
			return v
		}
		if m.oneIn(10) {
			return slices.Repeat([]any{m.anything(4)}, 1100)
		}
		return append(v, m.anything(0))
	case string:
		if m.oneIn(2) && len(v) > 0 {
			i := m.IntN(len(v))
			return v[:i] + pick(m.Rand, oddStrings...) + v[i:]
		}
	}
	if m.oneIn(4) {
		var deep any = "x"
		for range pick(m.Rand, 10, 60, 110, 2000) {
			deep = []any{deep}
		}
		return deep
	}
	return m.anything(0)
}

func sortedKeys[T any](v map[string]T) []string {
	var names []string
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
