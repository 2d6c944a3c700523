package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Tables lists the tables of a tenant ordered by name. A page begins after the name in its token.
func (c *Catalog) Tables(ctx context.Context, caller workflow.Caller, page workflow.Page) (list workflow.List[workflow.Table], err error) {
	all, err := c.openPorts().Registry.Tables(ctx, caller.Tenant)
	if err != nil {
		return list, err
	}
	list.Items = slices.DeleteFunc(all, func(t workflow.Table) bool { return t.Name <= page.Token })
	if limit := cmp.Or(max(page.Limit, 0), workflow.DefaultPageSize); len(list.Items) > limit {
		list.Items, list.NextToken = list.Items[:limit], list.Items[limit-1].Name
	}
	return list, nil
}

// Table reads a table.
func (c *Catalog) Table(ctx context.Context, caller workflow.Caller, name string) (workflow.Table, error) {
	t, err := c.openPorts().Registry.Table(ctx, caller.Tenant, name)
	if err == nil && t.Revision == 0 {
		err = workflow.Errorf(workflow.CodeNotFound, "there is no table %q", name)
	}
	return t, err
}

// TableDeliveries lists the newest failed deliveries to a table, with the result of the latest
// attempt of each.
func (c *Catalog) TableDeliveries(ctx context.Context, caller workflow.Caller, name string) (list workflow.List[workflow.DeliveryAttempt], err error) {
	if _, err := c.Table(ctx, caller, name); err != nil {
		return list, err
	}
	list.Items, err = c.openPorts().Registry.DeliveryAttempts(ctx, caller.Tenant, workflow.TableSubscriber(name))
	return list, err
}

// PutTable creates a table, or changes the one with that name: columns can be added, but not
// removed.
func (c *Catalog) PutTable(ctx context.Context, caller workflow.Caller, name string, req views.TableRequest) (workflow.Table, error) {
	registry := c.openPorts().Registry
	for range maxScheduleWrites {
		t, err := registry.Table(ctx, caller.Tenant, name)
		if err != nil {
			return t, err
		}
		next := workflow.Table{Name: name, Description: req.Description, Columns: req.Columns, Retention: req.Retention, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, Revision: t.Revision}
		issues := next.Check(expr.IsRowName)
		if t.Revision > 0 && len(issues) == 0 {
			issues = t.CheckChange(&next)
		}
		if err := workflow.Invalid("the table is not valid", issues); err != nil {
			return t, err
		}
		if t.Revision == 0 {
			all, err := registry.Tables(ctx, caller.Tenant)
			if err != nil {
				return t, err
			}
			if len(all) >= workflow.MaxTables {
				return t, workflow.Errorf(workflow.CodeLimit, "there are %d tables, which is the limit", len(all))
			}
			next.CreatedAt, next.CreatedBy = c.now().UTC().Truncate(time.Millisecond), caller.Actor
		} else if slices.Equal(t.Columns, next.Columns) && t.Description == next.Description && t.Retention == next.Retention {
			return t, nil
		}
		if ok, err := registry.PutTable(ctx, caller.Tenant, next); err != nil || ok {
			next.Revision++
			return next, err
		}
	}
	return workflow.Table{}, workflow.Contended(workflow.CodeConflict, "table %s", name)
}

// writtenRow is a row that a pipe or a step of a definition puts into a table, as far as that is known
// before it is executed.
type writtenRow struct {
	table  string
	at     string                     // where it is written
	fields map[string]expr.Field      // by column
	path   func(column string) string // where the value of a column is written
}

// writtenRows are the rows of the pipes and the steps of a definition.
func writtenRows(d *spec.Definition, compiled *definition.Compiled) (rows []writtenRow, err error) {
	for i := range d.Pipes {
		p, at := &d.Pipes[i], program.PipePath(i)
		row := writtenRow{p.Table, at, map[string]expr.Field{}, func(column string) string {
			if _, static := p.Static[column]; static {
				return at + ".static." + column
			}
			return at + ".map." + column
		}}
		for column, kind := range compiled.PipeKinds(i) {
			row.fields[column] = expr.Field{Kind: kind}
		}
		for column, value := range p.Static {
			row.fields[column] = expr.Field{Constant: value}
		}
		rows = append(rows, row)
	}
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		if s.Insert == nil {
			continue
		}
		fields, err := compiled.ParameterFields(i)
		if err != nil {
			return nil, err
		}
		at := paths[i] + ".insert"
		rows = append(rows, writtenRow{s.Insert.Table, at, fields, func(column string) string { return at + ".row." + column }})
	}
	return rows, nil
}

// misfitRows lists what of the rows of a definition does not fit their tables.
func (c *Catalog) misfitRows(ctx context.Context, tenant string, d *spec.Definition, compiled *definition.Compiled) (issues []workflow.Issue, err error) {
	ports := c.openPorts()
	rows, err := writtenRows(d, compiled)
	if err != nil || len(rows) == 0 || ports.AnyTable {
		return nil, err
	}
	all, err := ports.Registry.Tables(ctx, tenant)
	if err != nil {
		return nil, err
	}
	tables := map[string]*workflow.Table{}
	for i := range all {
		tables[all[i].Name] = &all[i]
	}
	for _, row := range rows {
		t := tables[row.table]
		if t == nil {
			near := workflow.DidYouMean(row.table, slices.Sorted(maps.Keys(tables)))
			issues = append(issues, workflow.Issue{Path: row.at + ".table", Code: workflow.IssueTableNotFound, Message: fmt.Sprintf("there is no table %q%s", row.table, near)})
			continue
		}
		columns := slices.Sorted(maps.Keys(row.fields))
		issues = append(issues, t.CheckColumns(columns, row.at, row.path)...)
		for _, column := range columns {
			if why := misfit(t.Column(column), row.fields[column]); why != "" {
				issues = append(issues, workflow.Issue{Path: row.path(column), Code: workflow.IssueTypeMismatch, Message: fmt.Sprintf("column %q of table %s: %s", column, t.Name, why)})
			}
		}
	}
	return issues, nil
}

// misfit returns why a value, or a value of a known type, does not fit a column; "" if it may.
func misfit(c *workflow.Column, f expr.Field) string {
	kind := f.Kind
	switch {
	case c == nil:
		return ""
	case len(f.Constant) > 0:
		if string(f.Constant) == "null" {
			return "null is no value"
		}
		return c.Fits(f.Constant)
	case kind == "" || c.Type == workflow.ColumnJSON || kind == string(c.Type):
		return ""
	case kind == string(workflow.ColumnDatetime) && c.Type == workflow.ColumnString, kind == string(workflow.ColumnString) && c.Type == workflow.ColumnDatetime:
		return "" // one is the text form of the other
	}
	return fmt.Sprintf("the value is of type %s, and the column of type %s", kind, c.Type)
}
