package expr

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// The kinds of values that [Language.CheckComparisons] tells apart, besides "" for any.
const (
	KindText    = "text"
	KindNumber  = "number"
	KindBoolean = "boolean"
	kindTime    = "time"
	kindPeriod  = "duration"
)

// Compared is a column of a row: the name of its type, and the kind of its values in expressions.
type Compared struct{ Type, Kind string }

// CheckComparisons returns an error about the first place where an expression of [RowLanguage]
// compares a column with a value of another kind, because that is true of no row. null compares
// with any kind. It also returns an error about a field of row that no row has.
func (l *Language) CheckComparisons(source string, columns map[string]Compared) error {
	compiled, err := l.check(source)
	if err != nil {
		return err
	}
	c := &comparisons{compiled: compiled, columns: columns, bound: map[string]bool{}}
	tree := compiled.NativeRep()
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind { // a name that a macro binds may hide a column, so macros are skipped
			c.bound[e.AsComprehension().IterVar()], c.bound[e.AsComprehension().IterVar2()] = true, true
		}
	}))
	var found *Error
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		why := c.missing(e)
		if why == "" {
			why = c.misfit(e)
		}
		if why != "" && found == nil {
			at := tree.SourceInfo().GetStartLocation(e.ID())
			found = &Error{Source: source, Line: max(at.Line(), 0), Column: max(at.Column(), 0) + 1, Message: why}
		}
	}))
	if found == nil {
		return nil
	}
	return found
}

type comparisons struct {
	compiled *cel.Ast
	columns  map[string]Compared
	bound    map[string]bool
}

// textFunctions are the functions that only texts have.
var textFunctions = map[string]bool{"startsWith": true, "endsWith": true, "contains": true, "matches": true}

// misfit describes a call that compares a column with a value of another kind; "" if it does not.
func (c *comparisons) misfit(e ast.Expr) string {
	if e.Kind() != ast.CallKind {
		return ""
	}
	call := e.AsCall()
	if call.IsMemberFunction() && textFunctions[call.FunctionName()] {
		return c.differ(call.Target(), KindText)
	}
	if len(call.Args()) != 2 {
		return ""
	}
	left, right := call.Args()[0], call.Args()[1]
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		if why := c.differ(left, c.kindOf(right)); why != "" {
			return why
		}
		return c.differ(right, c.kindOf(left))
	case operators.In:
		if right.Kind() == ast.ListKind {
			for _, item := range right.AsList().Elements() {
				if why := c.differ(left, c.kindOf(item)); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// differ describes a column whose kind differs from the kind that it is compared with.
func (c *comparisons) differ(e ast.Expr, kind string) string {
	column, name := c.column(e)
	switch {
	case name == "" || column.Kind == "" || kind == "" || column.Kind == kind:
		return ""
	case column.Kind == kindTime && kind == KindText:
		return fmt.Sprintf("%s is a time; this compares it with a text: write timestamp(...) for that", name)
	case kind == kindTime && column.Type == "datetime":
		return fmt.Sprintf("column %s is of type datetime, which expressions have as text: write timestamp(%s)", name, name)
	}
	return fmt.Sprintf("column %s is of type %s; this compares it with a %s", name, column.Type, kind)
}

// rowFields are the fields of row that are no columns.
var rowFields = map[string]Compared{
	"at": {Type: "datetime", Kind: kindTime}, "id": rowText, "execution": rowText, "workflow": rowText, "step": rowText,
}

var rowText = Compared{Type: "string", Kind: KindText}

// fieldOfRow returns the field of row that an expression names; "" if it names none.
func (c *comparisons) fieldOfRow(e ast.Expr) string {
	if e.Kind() != ast.SelectKind || c.bound[rowName] {
		return ""
	}
	of := e.AsSelect().Operand()
	if of.Kind() != ast.IdentKind || of.AsIdent() != rowName {
		return ""
	}
	return e.AsSelect().FieldName()
}

// missing describes a field of row that no row has; "" if the expression names none.
func (c *comparisons) missing(e ast.Expr) string {
	field := c.fieldOfRow(e)
	if _, ok := c.columns[field]; ok || field == "" {
		return ""
	}
	if _, ok := rowFields[field]; ok {
		return ""
	}
	return fmt.Sprintf("the table has no column %s, and row no other field of this name: it has the columns, and id, at, execution, workflow and step", field)
}

// column returns the column that an expression names, directly or as a member of row; "" if it
// names none.
func (c *comparisons) column(e ast.Expr) (Compared, string) {
	if field := c.fieldOfRow(e); field != "" && !e.AsSelect().IsTestOnly() {
		column, ok := rowFields[field]
		if !ok {
			column = c.columns[field]
		}
		return column, rowName + "." + field
	}
	if e.Kind() != ast.IdentKind || c.bound[e.AsIdent()] {
		return Compared{}, ""
	}
	column, ok := c.columns[e.AsIdent()]
	if !ok {
		return Compared{}, ""
	}
	return column, e.AsIdent()
}

// kindOf returns the kind of the values of an expression, as far as it is known.
func (c *comparisons) kindOf(e ast.Expr) string {
	if column, name := c.column(e); name != "" {
		return column.Kind
	}
	switch c.compiled.NativeRep().GetType(e.ID()).Kind() {
	case types.StringKind:
		return KindText
	case types.IntKind, types.UintKind, types.DoubleKind:
		return KindNumber
	case types.BoolKind:
		return KindBoolean
	case types.TimestampKind:
		return kindTime
	case types.DurationKind:
		return kindPeriod
	}
	return ""
}
