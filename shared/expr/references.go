package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// References is what an expression reads, so that no more has to be loaded. All
// lists are sorted.
type References struct {
	Labels []string // steps whose results it reads

	// Own are the labels read as LABEL.result, which of a step on entities exists
	// only for the job's own entity; All those read as LABEL.results.
	Own, All []string

	Steps     []string // labels read as steps.LABEL
	EveryStep bool     // steps is read as a whole, or by a label that is computed

	Entity, Parameters, Execution bool
}

// Merge adds o.
func (r *References) Merge(o References) {
	r.Labels = union(r.Labels, o.Labels)
	r.Own = union(r.Own, o.Own)
	r.All = union(r.All, o.All)
	r.Steps = union(r.Steps, o.Steps)
	r.EveryStep = r.EveryStep || o.EveryStep
	r.Entity = r.Entity || o.Entity
	r.Parameters = r.Parameters || o.Parameters
	r.Execution = r.Execution || o.Execution
}

// Contains reports whether an expression reads a label's results in any way.
func (r References) Contains(label string) bool { return slices.Contains(r.Labels, label) }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *Language) references(compiled *cel.Ast) References {
	f := &finder{labels: l.labels}
	f.visit(compiled.NativeRep().Expr(), nil)
	return f.found
}

// finder walks an expression for the names it reads. Inside a macro, the names
// that it binds hide those of the language.
type finder struct {
	labels []string
	found  References
}

func (f *finder) visit(e ast.Expr, bound []string) {
	switch e.Kind() {
	case ast.IdentKind:
		f.name(e.AsIdent(), "", bound)
	case ast.SelectKind:
		s := e.AsSelect()
		f.member(s.Operand(), s.FieldName(), bound)
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() == operators.Index && len(call.Args()) == 2 {
			f.member(call.Args()[0], text(call.Args()[1]), bound)
			f.visit(call.Args()[1], bound)
			return
		}
		if call.IsMemberFunction() {
			f.visit(call.Target(), bound)
		}
		for _, arg := range call.Args() {
			f.visit(arg, bound)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			f.visit(item, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f.visit(entry.AsMapEntry().Key(), bound)
			f.visit(entry.AsMapEntry().Value(), bound)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			f.visit(field.AsStructField().Value(), bound)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		f.visit(c.IterRange(), bound)
		f.visit(c.AccuInit(), bound)
		inner := slices.Concat(bound, []string{c.IterVar(), c.IterVar2(), c.AccuVar()})
		f.visit(c.LoopCondition(), inner)
		f.visit(c.LoopStep(), inner)
		f.visit(c.Result(), inner)
	}
}

// member notes what operand.field reads; field is "" if it is only known when
// the expression is evaluated.
func (f *finder) member(operand ast.Expr, field string, bound []string) {
	if operand.Kind() == ast.IdentKind {
		f.name(operand.AsIdent(), field, bound)
		return
	}
	f.visit(operand, bound)
}

// name notes a name and which field of it is read. A label of which another
// field than result or results is read, or all of it, counts as both.
func (f *finder) name(name, field string, bound []string) {
	global := strings.HasPrefix(name, ".") // .entity is never the name of a macro
	if name = strings.TrimPrefix(name, "."); !global && slices.Contains(bound, name) {
		return
	}
	switch name {
	case "entity":
		f.found.Entity = true
	case "parameters":
		f.found.Parameters = true
	case "execution":
		f.found.Execution = true
	case "steps":
		if field == "" {
			f.found.EveryStep = true
		} else {
			f.found.Merge(References{Steps: []string{field}})
		}
	}
	if !slices.Contains(f.labels, name) {
		return
	}
	label := []string{name}
	read := References{Labels: label}
	if field != "results" {
		read.Own = label
	}
	if field != "result" {
		read.All = label
	}
	f.found.Merge(read)
}

// text is the value of a text literal, "" of anything else.
func text(e ast.Expr) string {
	if e.Kind() == ast.LiteralKind {
		if s, ok := e.AsLiteral().(types.String); ok {
			return string(s)
		}
	}
	return ""
}
