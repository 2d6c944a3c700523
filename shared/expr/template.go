package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Template is a JSON value whose strings may hold tokens. It is safe for
// concurrent use.
type Template struct {
	constant json.RawMessage // set if it holds no token at all
	root     node
	refs     References
}

// node is one value of a template.
type node struct {
	path     string
	constant any
	parts    []piece         // of a string with tokens
	fields   map[string]node // of an object
	items    []node          // of a list
	kind     byte            // 'c'onstant, 's'tring, 'o'bject, 'l'ist
}

type piece struct {
	text    string
	program *Program
}

// CompileTemplate compiles every token of a JSON value. path names the value in
// errors.
func CompileTemplate(labels []string, path string, raw json.RawMessage) (*Template, error) {
	t := &Template{}
	if len(raw) == 0 {
		t.constant = json.RawMessage("{}")
		return t, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, &PathError{path, err}
	}
	root, err := t.compile(labels, path, v)
	if err != nil {
		return nil, err
	}
	t.root = root
	if root.kind == 'c' {
		t.constant = raw
	}
	return t, nil
}

// PathError is an error at one place of a template.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *PathError) Unwrap() error { return e.Err }

// References is what the template's tokens read.
func (t *Template) References() References { return t.refs }

func (t *Template) compile(labels []string, path string, v any) (node, error) {
	n := node{path: path, kind: 'c', constant: v}
	switch v := v.(type) {
	case string:
		parts, ok := split(v)
		if !ok {
			return n, &PathError{path, errors.New("a ${ is not closed; write $${ for the text ${")}
		}
		text := ""
		for _, p := range parts {
			if !p.token {
				text += p.text
				n.parts = append(n.parts, piece{text: p.text})
				continue
			}
			program, err := Compile(labels, p.text)
			if err != nil {
				return n, &PathError{path, err}
			}
			t.refs.Merge(program.References())
			n.parts = append(n.parts, piece{program: program})
			n.kind = 's'
		}
		if n.kind == 'c' {
			n.constant = text // with its escapes resolved
			if text != v {
				n.kind, n.parts = 's', []piece{{text: text}}
			}
		}
	case map[string]any:
		n.fields = map[string]node{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			field, err := t.compile(labels, path+"."+k, v[k])
			if err != nil {
				return n, err
			}
			n.fields[k] = field
			if field.kind != 'c' {
				n.kind = 'o'
			}
		}
	case []any:
		for i := range v {
			item, err := t.compile(labels, path+"["+strconv.Itoa(i)+"]", v[i])
			if err != nil {
				return n, err
			}
			n.items = append(n.items, item)
			if item.kind != 'c' {
				n.kind = 'l'
			}
		}
	}
	return n, nil
}

// Eval fills the template. The keys of objects come out sorted, so that the same
// inputs give the same bytes; a template without tokens comes out as written.
func (t *Template) Eval(s Scope) (json.RawMessage, error) {
	if t.constant != nil {
		return t.constant, nil
	}
	v, err := t.root.eval(s)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, &PathError{t.root.path, err} // an infinite number
	}
	return raw, nil
}

func (n *node) eval(s Scope) (any, error) {
	switch n.kind {
	case 's':
		return n.fill(s)
	case 'o':
		all := make(map[string]any, len(n.fields))
		for k, f := range n.fields {
			v, err := f.eval(s)
			if err != nil {
				return nil, err
			}
			all[k] = v
		}
		return all, nil
	case 'l':
		list := make([]any, len(n.items))
		for i := range n.items {
			v, err := n.items[i].eval(s)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	return n.constant, nil
}

// fill is the value of a string with tokens: of a single token its value, with
// its type; otherwise text, into which null, lists and maps do not go.
func (n *node) fill(s Scope) (any, error) {
	if len(n.parts) == 1 && n.parts[0].program != nil {
		v, err := n.parts[0].program.Eval(s)
		if err != nil {
			return nil, &PathError{n.path, err}
		}
		return v, nil
	}
	var text strings.Builder
	for _, p := range n.parts {
		if p.program == nil {
			text.WriteString(p.text)
			continue
		}
		v, err := p.program.Eval(s)
		if err != nil {
			return nil, &PathError{n.path, err}
		}
		switch v := v.(type) {
		case string:
			text.WriteString(v)
		case bool, int64, uint64:
			fmt.Fprint(&text, v)
		case float64:
			text.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		default:
			what := map[bool]string{true: "null"}[v == nil]
			if what == "" {
				what = "a list or a map"
			}
			return nil, &PathError{n.path, &Error{Source: p.program.source, Message: what + " cannot stand inside a text"}}
		}
	}
	return text.String(), nil
}
