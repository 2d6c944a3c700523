package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// References is what an expression reads, so that nothing else is loaded. All lists are
// sorted.
type References struct {
	Labels []string // steps whose results it reads

	// OwnResults are the labels read as LABEL.result. For a step on entities that is the
	// result of the job's own entity. AllResults are the labels read as LABEL.results.
	OwnResults, AllResults []string

	Steps    []string // labels read as steps.LABEL
	AllSteps bool     // steps is read as a whole, or by a computed label

	Entity, Parameters, Execution bool

	Names   []string // variables of the flow that it reads, such as error; for vars and context see the next two
	Vars    []string // variables that it reads as vars.NAME or context.NAME
	AllVars bool     // vars or context is read as a whole, or by a computed name
}

// Merge adds what o reads.
func (r *References) Merge(o References) {
	r.Labels = union(r.Labels, o.Labels)
	r.OwnResults = union(r.OwnResults, o.OwnResults)
	r.AllResults = union(r.AllResults, o.AllResults)
	r.Steps = union(r.Steps, o.Steps)
	r.AllSteps = r.AllSteps || o.AllSteps
	r.Entity = r.Entity || o.Entity
	r.Parameters = r.Parameters || o.Parameters
	r.Execution = r.Execution || o.Execution
	r.Names = union(r.Names, o.Names)
	r.Vars = union(r.Vars, o.Vars)
	r.AllVars = r.AllVars || o.AllVars
}

// ReadsVars reports whether an expression reads any variable.
func (r References) ReadsVars() bool { return r.AllVars || len(r.Vars) > 0 }

// Contains reports whether an expression reads a label's results in any way.
func (r References) Contains(label string) bool { return slices.Contains(r.Labels, label) }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *Language) references(compiled *cel.Ast) References {
	f := &referenceFinder{labels: l.labels, values: l.values}
	f.walk(compiled.NativeRep().Expr(), nil)
	return f.refs
}

// referenceFinder collects the names that an expression reads. Inside a macro, the names
// that the macro binds hide those of the language.
type referenceFinder struct {
	labels []string
	values []string // names of variables of the flow
	refs   References
}

func (f *referenceFinder) walk(e ast.Expr, bound []string) {
	switch e.Kind() {
	case ast.IdentKind:
		f.noteName(e.AsIdent(), "", bound)
	case ast.SelectKind:
		s := e.AsSelect()
		f.noteMember(s.Operand(), s.FieldName(), bound)
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() == operators.Index && len(call.Args()) == 2 {
			f.noteMember(call.Args()[0], literalText(call.Args()[1]), bound)
			f.walk(call.Args()[1], bound)
			return
		}
		if call.FunctionName() == operators.In && len(call.Args()) == 2 && literalText(call.Args()[0]) != "" {
			f.noteMember(call.Args()[1], literalText(call.Args()[0]), bound)
			return
		}
		if call.IsMemberFunction() {
			f.walk(call.Target(), bound)
		}
		for _, arg := range call.Args() {
			f.walk(arg, bound)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			f.walk(item, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f.walk(entry.AsMapEntry().Key(), bound)
			f.walk(entry.AsMapEntry().Value(), bound)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			f.walk(field.AsStructField().Value(), bound)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		f.walk(c.IterRange(), bound)
		f.walk(c.AccuInit(), bound)
		inner := slices.Concat(bound, []string{c.IterVar(), c.IterVar2(), c.AccuVar()})
		f.walk(c.LoopCondition(), inner)
		f.walk(c.LoopStep(), inner)
		f.walk(c.Result(), inner)
	}
}

// noteMember records that operand.field is read. field is "" if it is computed.
func (f *referenceFinder) noteMember(operand ast.Expr, field string, bound []string) {
	if operand.Kind() == ast.IdentKind {
		f.noteName(operand.AsIdent(), field, bound)
		return
	}
	f.walk(operand, bound)
}

// noteName records that a field of a name is read. A label that is read as a whole, or of which
// neither result nor results is read, counts as both.
func (f *referenceFinder) noteName(name, field string, bound []string) {
	global := strings.HasPrefix(name, ".") // .entity is never bound by a macro
	if name = strings.TrimPrefix(name, "."); !global && slices.Contains(bound, name) {
		return
	}
	switch name {
	case "entity":
		f.refs.Entity = true
	case "parameters":
		f.refs.Parameters = true
	case "execution":
		f.refs.Execution = true
	case "steps":
		if field == "" {
			f.refs.AllSteps = true
		} else {
			f.refs.Merge(References{Steps: []string{field}})
		}
	}
	if !slices.Contains(f.labels, name) {
		f.noteFlow(name, field)
		return
	}
	label := []string{name}
	read := References{Labels: label}
	if field != "results" && field != "children" { // the results of a step that starts executions, by their ids
		read.OwnResults = label
	}
	if field != "result" {
		read.AllResults = label
	}
	f.refs.Merge(read)
}

// noteFlow records that a field of a variable of the flow is read.
func (f *referenceFinder) noteFlow(name, field string) {
	switch {
	case !slices.Contains(f.values, name):
		return
	case name != "vars" && name != "context":
		f.refs.Names = union(f.refs.Names, []string{name})
	case field == "":
		f.refs.AllVars = true
	default:
		f.refs.Vars = union(f.refs.Vars, []string{field})
	}
	if name == "context" {
		f.refs.Parameters = true
	}
}

// literalText returns the value of a string literal, "" for anything else.
func literalText(e ast.Expr) string {
	if e.Kind() == ast.LiteralKind {
		if s, ok := e.AsLiteral().(types.String); ok {
			return string(s)
		}
	}
	return ""
}
