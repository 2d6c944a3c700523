package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TableRequest defines a table.
type TableRequest struct {
	Description string            `json:"description,omitempty"`
	Columns     []workflow.Column `json:"columns"`
	Retention   workflow.Duration `json:"retention,omitempty"` // 0 keeps rows for ever
}

// TableView is a table as callers see it.
type TableView struct {
	Name        string             `json:"name"`
	Description *string            `json:"description"`
	Columns     []ColumnView       `json:"columns"`
	Retention   *workflow.Duration `json:"retention"`
	CreatedAt   time.Time          `json:"createdAt"`
	CreatedBy   *string            `json:"createdBy"`
}

// RowsRetry is the result of retrying the rows that could not be stored.
type RowsRetry struct {
	Retried int `json:"retried"` // deliveries, which are on their way now
	Lost    int `json:"lost"`    // deliveries of executions that were deleted since
}

// ColumnView is a column as callers see it.
type ColumnView struct {
	Name     string              `json:"name"`
	Type     workflow.ColumnType `json:"type"`
	Required bool                `json:"required"`
	Hidden   bool                `json:"hidden"`
}

// NewTableView returns the view of a table.
func NewTableView(t workflow.Table) TableView {
	v := TableView{Name: t.Name, Description: textOrNil(t.Description), Columns: []ColumnView{}, CreatedAt: t.CreatedAt, CreatedBy: textOrNil(t.CreatedBy)}
	for _, c := range t.Columns {
		v.Columns = append(v.Columns, ColumnView(c))
	}
	if t.Retention > 0 {
		v.Retention = &t.Retention
	}
	return v
}

// RowView is a row of a table as callers see it.
type RowView struct {
	ID        string          `json:"id"`
	At        time.Time       `json:"at"`
	Execution string          `json:"execution"`
	Workflow  string          `json:"workflow"`
	Step      string          `json:"step"`
	Values    json.RawMessage `json:"values"`
}

// NewRowView returns the view of a row.
func NewRowView(r workflow.Row) RowView { return RowView(r) }
