package query

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxRowReads bounds how many pages of rows one call reads to find rows that match a condition.
const maxRowReads = 10

// Rows lists the rows of a table, ordered by id, so that the rows of the oldest execution come
// first. If there is a condition over the columns, it lists only matching rows. Hidden columns are
// neither listed nor known to the condition. The page may be short, or even empty; its token continues
// from there.
func (v *Service) Rows(ctx context.Context, c workflow.Caller, name, where string, p workflow.Page) (workflow.List[workflow.Row], error) {
	var list workflow.List[workflow.Row]
	ports := v.engine.OpenPorts()
	t, err := ports.Registry.Table(ctx, c.Tenant, name)
	if err == nil && t.Revision == 0 {
		err = workflow.Errorf(workflow.CodeNotFound, "there is no table %q", name)
	}
	if err != nil {
		return list, err
	}
	p.Limit = pageLimit(p)
	if where == "" {
		list, err = ports.Rows.Rows(ctx, c.Tenant, name, p)
		for i := range list.Items {
			if list.Items[i].Values, err = t.ShownValues(list.Items[i].Values); err != nil {
				return list, err
			}
		}
		return list, err
	}
	is, err := rowCondition(t.Shown(), where)
	if err != nil {
		return list, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "where", Code: "expression", Message: err.Error()}})
	}
	for range maxRowReads {
		// Read only as many as still fit into the page, so that the token of this read is the token
		// of the page.
		read, err := ports.Rows.Rows(ctx, c.Tenant, name, workflow.Page{Limit: p.Limit - len(list.Items), Token: p.Token, After: p.After})
		if err != nil {
			return list, err
		}
		for _, row := range read.Items {
			if is(row) {
				if row.Values, err = t.ShownValues(row.Values); err != nil {
					return list, err
				}
				list.Items = append(list.Items, row)
			}
		}
		p.Token = read.NextToken
		if p.Token == "" || len(list.Items) == p.Limit {
			break
		}
	}
	list.NextToken = p.Token
	return list, nil
}

// comparedAs maps column types to the types of their values in expressions. A JSON column may have
// any type.
var comparedAs = map[workflow.ColumnType]string{
	workflow.ColumnString: expr.KindText, workflow.ColumnDatetime: expr.KindText, workflow.ColumnNumber: expr.KindNumber, workflow.ColumnBoolean: expr.KindBoolean,
}

// rowCondition compiles a condition over rows of a table. A column without a value is null. A row
// for which the condition cannot be evaluated does not match.
func rowCondition(t *workflow.Table, where string) (func(workflow.Row) bool, error) {
	l, err := expr.RowLanguage(t.ColumnNames())
	if err != nil {
		return nil, err
	}
	program, err := l.CompileCondition(where)
	if err != nil {
		return nil, err
	}
	compared := map[string]expr.Compared{}
	for _, c := range t.Columns {
		compared[c.Name] = expr.Compared{Type: string(c.Type), Kind: comparedAs[c.Type]}
	}
	if err := l.CheckComparisons(where, compared); err != nil {
		return nil, err
	}
	return func(row workflow.Row) bool {
		var values map[string]json.RawMessage
		_ = json.Unmarshal(row.Values, &values) // it was written as an object
		whole, variables := map[string]any{}, map[string]any{}
		for _, name := range t.ColumnNames() {
			value := expr.ValueOf(values[name])
			whole[name], variables[name] = value, value
		}
		whole["id"], whole["at"], whole["execution"], whole["workflow"], whole["step"] = row.ID, row.At, row.Execution, row.Workflow, row.Step
		variables["row"] = whole
		ok, err := program.EvalBool(expr.Scope{Variables: variables})
		return err == nil && ok
	}, nil
}
