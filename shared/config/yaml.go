package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// position is a position in the configuration file.
type position struct{ line, column int }

// reader sets the settings of a file, and records the position of each key.
type reader struct {
	positions map[string]position
	issues    []workflow.Issue
}

// report adds an issue at a node.
func (r *reader) report(n ast.Node, path, code, format string, args ...any) {
	i := workflow.Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)}
	if tok := n.GetToken(); tok != nil && tok.Position != nil {
		i.Line, i.Column = tok.Position.Line, tok.Position.Column
	}
	r.issues = append(r.issues, i)
}

// readFile sets the settings of the document. Every wrong key is an issue of its own, and the
// others are still read.
func (c *Config) readFile(source []byte) (map[string]position, []workflow.Issue) {
	var document any
	if err := yaml.Unmarshal(source, &document); err != nil { // also finds duplicate keys
		return nil, []workflow.Issue{yamlIssue(err)}
	}
	file, err := parser.ParseBytes(source, 0)
	if err != nil {
		return nil, []workflow.Issue{yamlIssue(err)}
	}
	r := &reader{positions: map[string]position{}}
	for _, d := range file.Docs {
		if d.Body != nil && document != nil { // an empty document would reset every default
			r.object(d.Body, "", reflect.ValueOf(c).Elem())
		}
	}
	return r.positions, r.issues
}

func (r *reader) object(n ast.Node, path string, into reflect.Value) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return
	default:
		example := ", such as \"job: {lease: 60s}\""
		if path != "" {
			example = fmt.Sprintf(", such as \"%s: {%s: ...}\"", path, yamlKeys(into)[0])
		}
		r.report(n, path, "type", "want keys%s", example)
		return
	}
	for _, v := range values {
		key := v.Key.GetToken().Value
		full := strings.TrimPrefix(path+"."+key, ".")
		i := slices.Index(yamlKeys(into), key)
		if i < 0 {
			where := "the configuration"
			if path != "" {
				where = path
			}
			r.report(v.Key, full, "unknown_field", "there is no such key; %s has %s", where, strings.Join(yamlKeys(into), ", "))
			continue
		}
		if tok := v.Key.GetToken(); tok.Position != nil {
			r.positions[full] = position{tok.Position.Line, tok.Position.Column}
		}
		if f := into.Field(i); f.Kind() == reflect.Struct {
			r.object(v.Value, full, f)
		} else {
			r.value(v.Value, full, f)
		}
	}
}

// value sets one key. Its errors do not come from the library, which would name Go types.
func (r *reader) value(n ast.Node, path string, into reflect.Value) {
	if _, null := n.(*ast.NullNode); null {
		return // null is the same as an absent key
	}
	var err error
	if _, list := into.Interface().([]string); list {
		var all []string
		if err = yaml.NodeToValue(n, &all); err != nil {
			err = errors.New("want a list such as [loopback]")
		}
		into.Set(reflect.ValueOf(all))
	} else if scalar, ok := n.(ast.ScalarNode); ok {
		err = setValue(into, fmt.Sprint(scalar.GetValue()))
	} else {
		err = fmt.Errorf("want %s, not a list or keys", example(into))
	}
	if err != nil {
		r.report(n, path, "value", "%v", err)
	}
}

func example(v reflect.Value) string {
	switch v.Interface().(type) {
	case time.Duration:
		return "a duration such as 90s"
	case int:
		return "a whole number"
	}
	return "text"
}

// yamlKeys are the keys of one struct of the configuration, in the order of its fields.
func yamlKeys(v reflect.Value) []string {
	var all []string
	for i := range v.NumField() {
		all = append(all, v.Type().Field(i).Tag.Get("yaml"))
	}
	return all
}
