package defgen

import (
	"fmt"
	"strings"
)

// FlowData is a value as definitions write it: a number, a text, a list or an object, with
// expressions anywhere in it.
type FlowData struct {
	Kind  string    // one of the kinds below
	Value FlowValue // of number, text and those in CEL
	Text  string    // of text and literal; of whole, the path of a variable
	Of    []FlowData
}

// The kinds of values.
const (
	DataLiteral = "literal" // Text, as YAML has it: a number, true, null or a text
	DataNumber  = "number"  // an expression alone
	DataText    = "text"    // Text around an expression
	DataWhole   = "whole"   // the variable at a path, null if it is not set
	DataList    = "list"
	DataObject  = "object" // with the names k0, k1 and so on
	DataCELList = "list in CEL"
	DataCELMap  = "object in CEL"
)

// literals are values without expressions.
var literals = []string{"7", "-2", "0.5", "true", "false", "null", `"a ü, 'b'"`, `"2030-01-31T08:00:00+01:00"`}

// data draws a value.
func (f *Flow) data(depth int, more func(below int) int) FlowData {
	d := FlowData{Kind: []string{DataLiteral, DataNumber, DataNumber, DataText, DataText, DataWhole, DataCELList, DataCELMap, DataList, DataObject}[more(10)]}
	switch d.Kind {
	case DataLiteral:
		d.Text = literals[more(len(literals))]
	case DataWhole:
		d.Text = []string{"a", "m", "m.x", "x", "x.y", "z"}[more(6)]
	case DataText:
		d.Text = []string{"n", "x-", "the count: "}[more(3)]
		fallthrough
	default:
		d.Value = f.valueBy(more)
	}
	if (d.Kind == DataList || d.Kind == DataObject) && depth == 0 {
		for range more(4) {
			d.Of = append(d.Of, f.data(depth+1, more))
		}
	}
	return d
}

// valueBy draws a number of a variable, or one that is known.
func (f *Flow) valueBy(more func(below int) int) FlowValue {
	v := FlowValue{Add: more(4), Else: more(3)}
	switch {
	case f.loops > 0 && more(2) == 0:
		v.OfItem, v.OfIndex = true, f.indexed
	case more(4) == 0:
		v.Path, v.OfResult = []string{"r", "m.r"}[more(2)], true
	case more(4) > 0:
		v.Path = flowPaths[more(len(flowPaths))]
	}
	return v
}

func (d *FlowData) yaml() string {
	switch d.Kind {
	case DataLiteral:
		return d.Text
	case DataNumber:
		return fmt.Sprintf("'${%s}'", d.Value.expr())
	case DataText:
		return fmt.Sprintf("'%s${%s}!'", d.Text, d.Value.expr())
	case DataWhole:
		return fmt.Sprintf("'${(%s) ? vars.%s : null}'", hasPath(d.Text), d.Text)
	case DataCELList:
		return fmt.Sprintf("'${[%s, 1]}'", d.Value.expr())
	case DataCELMap:
		return fmt.Sprintf(`'${{"k0": %s, "k1": [true]}}'`, d.Value.expr())
	case DataList:
		var all []string
		for i := range d.Of {
			all = append(all, d.Of[i].yaml())
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return objectYAML(d.Of)
}

// objectYAML returns an object with the names k0, k1 and so on.
func objectYAML(of []FlowData) string {
	var all []string
	for i := range of {
		all = append(all, fmt.Sprintf("k%d: %s", i, of[i].yaml()))
	}
	return "{" + strings.Join(all, ", ") + "}"
}
