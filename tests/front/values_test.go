package front

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

// maker makes values from schemas. words are what exists in the world, by the
// name under which it is asked for.
type maker struct {
	*rand.Rand
	in    map[string]any // the document that references are within
	words map[string][]string
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// chance is one in n.
func (m *maker) chance(n int) bool { return m.IntN(n) == 0 }

// value is one that fits the schema, as far as this program understands it. name
// is the field's.
func (m *maker) value(schema map[string]any, name string, depth int) any {
	s := resolve(m.in, schema)
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok {
		return pick(m.Rand, list...)
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if list, ok := s[choice].([]any); ok && s["type"] == nil {
			return m.value(object(pick(m.Rand, list...)), name, depth)
		}
	}
	switch kind(m, s) {
	case "string":
		return m.text(s, name)
	case "integer", "number":
		return m.number(s)
	case "boolean":
		return m.chance(2)
	case "null":
		return nil
	case "array":
		least, most := bound(s, "minItems", 0), bound(s, "maxItems", 4)
		list := []any{}
		for range least + m.IntN(max(1, min(most, least+3)-least+1)) {
			list = append(list, m.value(object(s["items"]), name, depth+1))
		}
		return list
	case "object":
		return m.object(s, depth)
	}
	return m.anything(depth)
}

func kind(m *maker, s map[string]any) string {
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

func (m *maker) object(s map[string]any, depth int) any {
	v := map[string]any{}
	required, _ := s["required"].([]any)
	properties := object(s["properties"])
	for _, name := range sorted(properties) {
		if slices.Contains(required, any(name)) || (depth < 6 && m.chance(3)) {
			v[name] = m.value(object(properties[name]), name, depth+1)
		}
	}
	for pattern, of := range object(s["patternProperties"]) {
		for range m.IntN(3) {
			v[m.matching(pattern)] = m.value(object(of), "", depth+1)
		}
	}
	if open, said := s["additionalProperties"]; properties == nil && s["patternProperties"] == nil && (!said || open == true) {
		for range m.IntN(4) {
			v[m.word()] = m.anything(depth + 1)
		}
	}
	return v
}

func (m *maker) number(s map[string]any) any {
	least, most := bound(s, "minimum", -5), bound(s, "maximum", 1000)
	if m.chance(4) {
		return pick(m.Rand, least, most)
	}
	return least + m.IntN(max(1, most-least+1))
}

func bound(s map[string]any, name string, otherwise int) int {
	if n, ok := s[name].(float64); ok {
		return int(n)
	}
	return otherwise
}

func (m *maker) text(s map[string]any, name string) string {
	if known := m.words[name]; len(known) > 0 && !m.chance(3) {
		return pick(m.Rand, known...)
	}
	if s["format"] == "date-time" {
		at := time.Date(2026, 1, 1, 0, 0, m.IntN(1<<24), 0, time.UTC)
		return at.In(time.FixedZone("", m.IntN(24)*3600-12*3600)).Format(time.RFC3339Nano)
	}
	text := m.word()
	if pattern, ok := s["pattern"].(string); ok {
		text = m.matching(pattern)
	}
	runes := []rune(text)
	if most := bound(s, "maxLength", 1<<20); len(runes) > most {
		runes = runes[:most]
	}
	for len(runes) < bound(s, "minLength", 0) {
		runes = append(runes, 'x')
	}
	return string(runes)
}

// strange are texts that have broken programs.
var strange = []string{
	"", " ", "null", "NaN", "-0", "é", "\u202e", "𝒳", "a\u0000b", "'; --", "<b>", "${parameters.x}", "${", "}", "%00", "../..", "__proto__", "constructor",
	"\ufeff", "1e999", "true", strings.Repeat("x", 300), "{{x}}", "\\", "\"", "a\r\nb: c",
}

func (m *maker) word() string {
	if m.chance(6) {
		return pick(m.Rand, strange...)
	}
	return pick(m.Rand, "a", "device", "core", "x1", "target", "site") + pick(m.Rand, "", "", fmt.Sprint(m.IntN(5)))
}

// anything is any JSON.
func (m *maker) anything(depth int) any {
	switch n := m.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return m.chance(2)
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

var parsed sync.Map // patterns

// matching is a text that a pattern matches.
func (m *maker) matching(pattern string) string {
	re, ok := parsed.Load(pattern)
	if !ok {
		p, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			panic(fmt.Sprintf("%q: %v", pattern, err))
		}
		re, _ = parsed.LoadOrStore(pattern, p)
	}
	var out strings.Builder
	m.write(&out, re.(*syntax.Regexp))
	return out.String()
}

func (m *maker) write(out *strings.Builder, re *syntax.Regexp) {
	again := func(least, most int) {
		for range least + m.IntN(most-least+1) {
			m.write(out, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		out.WriteRune(m.among(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteRune(rune('a' + m.IntN(26)))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			m.write(out, sub)
		}
	case syntax.OpAlternate:
		m.write(out, pick(m.Rand, re.Sub...))
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
			if re.Max > 0 && m.chance(20) {
				most = re.Max
			}
		}
		again(re.Min, most)
	}
}

// among is a rune of a class, of its ASCII part if it has one.
func (m *maker) among(class []rune) rune {
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

// spoil changes one place of a value.
func (m *maker) spoil(v any) any {
	switch v := v.(type) {
	case map[string]any:
		names := sorted(v)
		switch n := m.IntN(4); {
		case len(names) == 0 || n == 0:
			v[pick(m.Rand, "unknown", "", "Workflow", "type", "id")] = m.anything(0)
		case n == 1:
			delete(v, pick(m.Rand, names...))
		default:
			name := pick(m.Rand, names...)
			v[name] = m.spoil(v[name])
		}
		return v
	case []any:
		if len(v) > 0 && !m.chance(3) {
			i := m.IntN(len(v))
			v[i] = m.spoil(v[i])
			return v
		}
		if m.chance(10) {
			return slices.Repeat([]any{m.anything(4)}, 1100)
		}
		return append(v, m.anything(0))
	case string:
		if m.chance(2) && len(v) > 0 {
			i := m.IntN(len(v))
			return v[:i] + pick(m.Rand, strange...) + v[i:]
		}
	}
	if m.chance(4) {
		var deep any = "x"
		for range pick(m.Rand, 10, 60, 110, 2000) {
			deep = []any{deep}
		}
		return deep
	}
	return m.anything(0)
}

func sorted[T any](v map[string]T) []string {
	var names []string
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
