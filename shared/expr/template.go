package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Template is a JSON value whose strings may contain tokens. Keys of objects cannot. It is safe for
// concurrent use.
type Template struct {
	constant json.RawMessage // the whole value, if it holds no token
	root     node
	tokens   []Token
	refs     References
}

// Token is one ${...} of a template.
type Token struct {
	Path    string // of the string that contains it
	Program *Program
}

// node is one value of a template.
type node struct {
	path     string
	constant any
	parts    []compiledPart  // of a string with tokens
	fields   map[string]node // of an object
	items    []node          // of a list
	kind     byte            // 'c'onstant, 's'tring, 'o'bject, 'l'ist
}

type compiledPart struct {
	text    string
	program *Program
}

// PathError is an error at one path of a template.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *PathError) Unwrap() error { return e.Err }

// CompileTemplate compiles every token of one JSON value. path names the value in errors.
// Use a [Language] for more than one.
func CompileTemplate(labels []string, path string, raw json.RawMessage) (*Template, error) {
	l, err := NewLanguage(labels)
	if err != nil {
		return nil, err
	}
	t, problems := l.CompileTemplate(path, raw)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return t, nil
}

// CompileTemplate compiles every token of a JSON value. path names the value in errors. It
// reports every token that does not compile.
func (l *Language) CompileTemplate(path string, raw json.RawMessage) (*Template, []*PathError) {
	if len(raw) == 0 {
		return &Template{constant: json.RawMessage("{}")}, nil
	}
	if !json.Valid(raw) {
		return nil, []*PathError{{path, errors.New("this is not JSON")}}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, []*PathError{{path, err}}
	}
	c := templateCompiler{language: l, template: &Template{}}
	root := c.compile(path, v)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	c.template.root = root
	if root.kind == 'c' {
		c.template.constant = raw
	}
	return c.template, nil
}

// References returns what the template's tokens read.
func (t *Template) References() References { return t.refs }

// Field is a field of an object that is a template: a constant, or the type of its value as far as it is
// known, as [Program.Kind].
type Field struct {
	Constant json.RawMessage
	Kind     string
}

// Fields are the fields of the object that the template is, nil if it is none.
func (t *Template) Fields() (map[string]Field, error) {
	if t.root.fields == nil {
		return nil, nil
	}
	all := map[string]Field{}
	for name, n := range t.root.fields {
		field := Field{Kind: string(workflow.ColumnJSON)}
		switch {
		case n.kind == 'c':
			constant, err := workflow.EncodeJSON(n.constant)
			if err != nil {
				return nil, &PathError{n.path, err}
			}
			field = Field{Constant: constant}
		case n.kind == 's' && len(n.parts) == 1 && n.parts[0].program != nil:
			field.Kind = n.parts[0].program.Kind()
		case n.kind == 's':
			field.Kind = string(workflow.ColumnString)
		}
		all[name] = field
	}
	return all, nil
}

// Tokens returns the template's tokens in the order of their paths.
func (t *Template) Tokens() []Token { return t.tokens }

type templateCompiler struct {
	language *Language
	template *Template
	problems []*PathError
}

func (c *templateCompiler) compile(path string, v any) node {
	n := node{path: path, kind: 'c', constant: v}
	switch v := v.(type) {
	case string:
		c.compileString(&n, v)
	case map[string]any:
		n.fields = map[string]node{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			field := c.compile(path+"."+k, v[k])
			n.fields[k] = field
			if field.kind != 'c' {
				n.kind = 'o'
			}
		}
	case []any:
		for i := range v {
			item := c.compile(path+"["+strconv.Itoa(i)+"]", v[i])
			n.items = append(n.items, item)
			if item.kind != 'c' {
				n.kind = 'l'
			}
		}
	}
	return n
}

// compileString splits a string into parts. A string without tokens and escapes stays a
// constant.
func (c *templateCompiler) compileString(n *node, s string) {
	parts, ok := Split(s)
	if !ok {
		c.problems = append(c.problems, &PathError{n.path, errors.New("a ${ is not closed; write $${ for the text ${")})
		return
	}
	if len(parts) == 0 || len(parts) == 1 && !parts[0].Token && parts[0].Text == s {
		return
	}
	n.kind = 's'
	for _, p := range parts {
		if !p.Token {
			n.parts = append(n.parts, compiledPart{text: p.Text})
			continue
		}
		program, err := c.language.Compile(p.Text)
		if err != nil {
			c.problems = append(c.problems, &PathError{n.path, err})
			continue
		}
		c.template.refs.Merge(program.refs)
		c.template.tokens = append(c.template.tokens, Token{n.path, program})
		n.parts = append(n.parts, compiledPart{program: program})
	}
}

// Eval fills the template. Keys of objects are sorted, so that the same inputs give the same bytes.
// A template without tokens is returned as written.
func (t *Template) Eval(s Scope) (json.RawMessage, error) {
	if t.constant != nil {
		return t.constant, nil
	}
	remaining := maxResultSize
	v, err := t.root.eval(s, &remaining)
	if err != nil {
		return nil, err
	}
	out, err := workflow.EncodeJSON(v)
	if err != nil {
		return nil, &PathError{t.root.path, err}
	}
	return out, nil
}

func (n *node) eval(s Scope, remaining *int) (any, error) {
	switch n.kind {
	case 's':
		v, err := n.evalString(s, remaining)
		if err != nil {
			return nil, &PathError{n.path, err}
		}
		return v, nil
	case 'o':
		all := make(map[string]any, len(n.fields))
		for _, k := range slices.Sorted(maps.Keys(n.fields)) { // so that the first error is always the same
			f := n.fields[k]
			v, err := f.eval(s, remaining)
			if err != nil {
				return nil, err
			}
			all[k] = v
		}
		return all, nil
	case 'l':
		list := make([]any, len(n.items))
		for i := range n.items {
			v, err := n.items[i].eval(s, remaining)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	return n.constant, nil
}

// evalString evaluates a string with tokens. A single token keeps the type of its value.
// Anything else is text, into which null, lists and maps cannot be inserted.
func (n *node) evalString(s Scope, remaining *int) (any, error) {
	if len(n.parts) == 1 && n.parts[0].program != nil {
		return n.parts[0].program.evalWithin(s, remaining)
	}
	var text strings.Builder
	for _, p := range n.parts {
		if p.program == nil {
			text.WriteString(p.text)
			continue
		}
		v, err := p.program.evalWithin(s, remaining)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case string:
			text.WriteString(v)
			continue
		case nil:
			err = errors.New("null cannot be inserted into a string")
		case []any, map[string]any:
			err = errors.New("a list or a map cannot be inserted into a string")
		default: // numbers and booleans are written as in JSON
			raw, failed := workflow.EncodeJSON(v)
			text.Write(raw)
			err = failed
		}
		if err != nil {
			return nil, &Error{Source: p.program.source, Message: err.Error()}
		}
	}
	return text.String(), nil
}

// Part is a part of a string: literal text, or the source of a token.
type Part struct {
	Text  string
	Token bool
}

// EachToken calls visitToken for every token of a JSON value. It compiles none.
func EachToken(raw json.RawMessage, visitToken func(source string)) {
	eachString(raw, func(parts []Part) { visitTokens(parts, visitToken) })
}

// EachInserted calls visitToken for every token whose value becomes part of a text: one that is not the whole
// string.
func EachInserted(raw json.RawMessage, visitToken func(source string)) {
	eachString(raw, func(parts []Part) {
		if len(parts) > 1 {
			visitTokens(parts, visitToken)
		}
	})
}

func visitTokens(parts []Part, visit func(source string)) {
	for _, p := range parts {
		if p.Token {
			visit(p.Text)
		}
	}
}

func eachString(raw json.RawMessage, visit func(parts []Part)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := d.Token()
		if err != nil {
			return
		}
		s, _ := t.(string)
		parts, _ := Split(s)
		visit(parts)
	}
}

// Split finds the ${...} tokens of a string. $${ is the text ${. It matches braces, quotes
// and comments inside an expression, so that a map or a string in it does not end it. ok
// is false if a token is not closed.
func Split(s string) (parts []Part, ok bool) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, Part{Text: text.String()})
			text.Reset()
		}
	}
	for len(s) > 0 {
		at := strings.Index(s, "${")
		if at < 0 {
			text.WriteString(s)
			break
		}
		if at > 0 && s[at-1] == '$' {
			text.WriteString(s[:at-1] + "${")
			s = s[at+2:]
			continue
		}
		text.WriteString(s[:at])
		flush()
		end := closingBrace(s[at+2:])
		if end < 0 {
			return nil, false
		}
		parts = append(parts, Part{Text: s[at+2 : at+2+end], Token: true})
		s = s[at+2+end+1:]
	}
	flush()
	return parts, true
}

// closingBrace returns the index of the brace that closes an expression, -1 if none does.
func closingBrace(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '/': // a comment ends with its line
			if strings.HasPrefix(s[i:], "//") {
				end := strings.IndexByte(s[i:], '\n')
				if end < 0 {
					return -1
				}
				i += end
			}
		case '\'', '"':
			raw := i > 0 && (s[i-1] == 'r' || s[i-1] == 'R')
			end := stringLiteralLength(s[i:], raw)
			if end < 0 {
				return -1
			}
			i += end - 1
		}
	}
	return -1
}

// stringLiteralLength returns the length of the CEL string literal at the start of s, with its
// quotes, -1 if it is not closed.
func stringLiteralLength(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return -1
}
