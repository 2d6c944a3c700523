package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Template is a JSON value whose strings may hold tokens. The keys of objects
// hold none. It is safe for concurrent use.
type Template struct {
	constant json.RawMessage // set if it holds no token at all
	root     node
	tokens   []Token
	refs     References
}

// Token is one ${...} of a template.
type Token struct {
	Path    string // of the string it stands in
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

// PathError is an error at one place of a template.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *PathError) Unwrap() error { return e.Err }

// CompileTemplate compiles every token of one JSON value, whose path names it in
// errors. Use a [Language] for more than one.
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

// CompileTemplate compiles every token of a JSON value, whose path names it in
// errors. It reports every token that does not compile.
func (l *Language) CompileTemplate(path string, raw json.RawMessage) (*Template, []*PathError) {
	if len(raw) == 0 {
		return &Template{constant: json.RawMessage("{}")}, nil
	}
	if !json.Valid(raw) {
		return nil, []*PathError{{path, errors.New("this is no JSON")}}
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

// References is what the template's tokens read.
func (t *Template) References() References { return t.refs }

// Tokens are the template's tokens, in the order of their paths.
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

// compileString makes a string's parts. A string without tokens and escapes stays a
// constant.
func (c *templateCompiler) compileString(n *node, s string) {
	parts, ok := split(s)
	if !ok {
		c.problems = append(c.problems, &PathError{n.path, errors.New("a ${ is not closed; write $${ for the text ${")})
		return
	}
	if len(parts) == 0 || len(parts) == 1 && !parts[0].token && parts[0].text == s {
		return
	}
	n.kind = 's'
	for _, p := range parts {
		if !p.token {
			n.parts = append(n.parts, compiledPart{text: p.text})
			continue
		}
		program, err := c.language.Compile(p.text)
		if err != nil {
			c.problems = append(c.problems, &PathError{n.path, err})
			continue
		}
		c.template.refs.Merge(program.refs)
		c.template.tokens = append(c.template.tokens, Token{n.path, program})
		n.parts = append(n.parts, compiledPart{program: program})
	}
}

// Eval fills the template. The keys of objects come out sorted, so that the same
// inputs give the same bytes; a template without tokens comes out as written.
func (t *Template) Eval(s Scope) (json.RawMessage, error) {
	if t.constant != nil {
		return t.constant, nil
	}
	remaining := maxResultSize
	v, err := t.root.eval(s, &remaining)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, &PathError{t.root.path, err}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
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
		for _, k := range slices.Sorted(maps.Keys(n.fields)) { // so that the first error is the same every time
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

// evalString is the value of a string with tokens: of a single token its value, with
// its type; otherwise text, into which null, lists and maps do not go.
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
			err = errors.New("null cannot stand inside a text")
		case []any, map[string]any:
			err = errors.New("a list or a map cannot stand inside a text")
		default: // numbers and booleans read as they do in JSON
			raw, failed := json.Marshal(v)
			text.Write(raw)
			err = failed
		}
		if err != nil {
			return nil, &Error{Source: p.program.source, Message: err.Error()}
		}
	}
	return text.String(), nil
}
