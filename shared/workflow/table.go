package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Table is where the pipes and the steps of definitions put rows. It belongs to a tenant.
type Table struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Columns     []Column  `json:"columns"`
	Retention   Duration  `json:"retention,omitempty"` // how long after its job a new row is kept; 0 for ever
	CreatedAt   time.Time `json:"createdAt"`
	CreatedBy   string    `json:"createdBy,omitempty"`
	Revision    int64     `json:"revision"` // +1 with every write
}

// Column is one column of a table. If it is required, each row has a value in it. If it is hidden,
// rows still get values in it, which are not shown.
type Column struct {
	Name     string     `json:"name"`
	Type     ColumnType `json:"type"`
	Required bool       `json:"required,omitempty"`
	Hidden   bool       `json:"hidden,omitempty"`
}

// ColumnType is the type of the values of a column.
type ColumnType string

// Column types. A datetime is RFC 3339 text; json is any value.
const (
	ColumnString   ColumnType = "string"
	ColumnNumber   ColumnType = "number"
	ColumnBoolean  ColumnType = "boolean"
	ColumnDatetime ColumnType = "datetime"
	ColumnJSON     ColumnType = "json"
)

// Limits of tables.
const (
	MaxTables       = 100 // for a tenant
	MaxColumns      = 50  // for a table
	MaxRowBytes     = 16 << 10
	MinRowRetention = time.Hour
	MaxRowRetention = 3650 * 24 * time.Hour
)

// ColumnPattern is the pattern of column names, which expressions read.
const ColumnPattern = `^[A-Za-z_][A-Za-z0-9_]{0,63}$`

var columnRE = regexp.MustCompile(ColumnPattern)

// Row is one row of a table. What the pipe or the step has put into it is in Values, by column. The rest
// says of which job or step it is.
type Row struct {
	ID        string          `json:"id"` // derived from the job and the pipe, so that repeated writes make one row
	At        time.Time       `json:"at"` // when the step run of the job ended, or that of the step began
	Execution string          `json:"execution"`
	Workflow  string          `json:"workflow"`
	Step      string          `json:"step"`
	Values    json.RawMessage `json:"values"` // object
}

// RowID is the id of the row that a pipe makes of a job. That of a step that inserts one has index and pipe 0. Rows are listed in the order of their ids:
// by execution, the oldest first, then by step run, job and pipe.
func RowID(execution string, stepRunSeq, index, pipe int) string {
	return fmt.Sprintf("%s.%06d.%06d.%02d", execution, stepRunSeq, index, pipe)
}

// Codes of values that do not fit a table: of issues when a definition is published, and of failures of a step that inserts a row.
const (
	IssueTableNotFound   = "TABLE_NOT_FOUND"
	IssueColumnNotFound  = "COLUMN_NOT_FOUND"
	IssueTypeMismatch    = "TYPE_MISMATCH"
	IssueMissingRequired = "MISSING_REQUIRED"
)

// Column returns a column by name; nil if the table does not have it.
func (t *Table) Column(name string) *Column {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Columns[i]
}

// ColumnNames returns the names of all columns.
func (t *Table) ColumnNames() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// Shown returns the table without its hidden columns.
func (t *Table) Shown() *Table {
	shown := *t
	shown.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return c.Hidden })
	return &shown
}

// ShownValues returns the values of a row without those of hidden columns.
func (t *Table) ShownValues(values json.RawMessage) (json.RawMessage, error) {
	if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Hidden }) {
		return values, nil
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal(values, &row); err != nil {
		return nil, err
	}
	for _, c := range t.Columns {
		if c.Hidden {
			delete(row, c.Name)
		}
	}
	return EncodeJSON(row)
}

// Check lists what is wrong with the columns of a table. reserved says which names have another
// meaning in expressions.
func (t *Table) Check(reserved func(string) bool) (issues []Issue) {
	add := func(path, code, format string, args ...any) {
		issues = append(issues, Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if n := len(t.Columns); n == 0 || n > MaxColumns {
		add("columns", "limit", "a table has 1 to %d columns", MaxColumns)
	}
	for i, c := range t.Columns {
		path := fmt.Sprintf("columns[%d]", i)
		switch {
		case !columnRE.MatchString(c.Name):
			add(path+".name", "format", "want a letter or _, then letters, digits and _, at most 64")
		case reserved(c.Name):
			add(path+".name", "reserved", "%q has another meaning in expressions", c.Name)
		case t.Column(c.Name) != &t.Columns[i]:
			add(path+".name", "duplicate", "there is another column %q", c.Name)
		}
		switch c.Type {
		case ColumnString, ColumnNumber, ColumnBoolean, ColumnDatetime, ColumnJSON:
		default:
			add(path+".type", "enum", "want string, number, boolean, datetime or json")
		}
	}
	if d := t.Retention.Std(); d != 0 && (d < MinRowRetention || d > MaxRowRetention) {
		add("retention", "range", "want %s to %s, or nothing to keep rows for ever", MinRowRetention, MaxRowRetention)
	}
	return issues
}

// CheckChange lists why a table cannot be changed into another one: existing rows must fit, and so
// must the pipes of published definitions.
func (t *Table) CheckChange(next *Table) (issues []Issue) {
	for _, c := range t.Columns {
		n := next.Column(c.Name)
		if n == nil {
			issues = append(issues, Issue{Path: "columns", Code: "required", Message: fmt.Sprintf("the column %q is there, and stays: rows may have it", c.Name)})
		} else if n.Type != c.Type {
			issues = append(issues, Issue{Path: columnPath(next, c.Name) + ".type", Code: "immutable", Message: fmt.Sprintf("the column %q is of type %s, which cannot be changed: rows may have it", c.Name, c.Type)})
		}
	}
	for _, c := range next.Columns {
		if old := t.Column(c.Name); c.Required && (old == nil || !old.Required) {
			issues = append(issues, Issue{Path: columnPath(next, c.Name) + ".required", Code: "immutable", Message: fmt.Sprintf("the column %q cannot be required in a table that is there: rows and pipes may be without it", c.Name)})
		}
	}
	return issues
}

func columnPath(t *Table, name string) string {
	return "columns[" + strconv.Itoa(slices.Index(t.ColumnNames(), name)) + "]"
}

// CheckColumns lists what does not fit in a row with values in the given columns. Only the names of
// the columns are known. path returns where a column is written.
func (t *Table) CheckColumns(columns []string, at string, path func(column string) string) (issues []Issue) {
	for _, name := range columns {
		if t.Column(name) == nil {
			issues = append(issues, Issue{Path: path(name), Code: IssueColumnNotFound, Message: fmt.Sprintf("table %s has no column %q%s", t.Name, name, DidYouMean(name, t.ColumnNames()))})
		}
	}
	for _, c := range t.Columns {
		if c.Required && !slices.Contains(columns, c.Name) {
			issues = append(issues, Issue{Path: at, Code: IssueMissingRequired, Message: fmt.Sprintf("table %s requires the column %q", t.Name, c.Name)})
		}
	}
	return issues
}

// MakeRow makes the values of a row: JSON, by column. A null counts as no value. It returns
// CodeInvalid with everything that does not fit, and CodeTooLarge if there is too much.
func (t *Table) MakeRow(values map[string]json.RawMessage) (json.RawMessage, error) {
	row := map[string]json.RawMessage{}
	for name, raw := range values {
		if raw = bytes.TrimSpace(raw); len(raw) > 0 && string(raw) != "null" {
			row[name] = raw
		}
	}
	names := slices.Sorted(maps.Keys(row))
	issues := t.CheckColumns(names, "", func(name string) string { return name })
	for _, name := range names {
		c := t.Column(name)
		if c == nil {
			continue
		}
		value, message := c.Type.convert(row[name])
		if message != "" {
			issues = append(issues, Issue{Path: name, Code: IssueTypeMismatch, Message: fmt.Sprintf("column %q of table %s: %s", name, t.Name, message)})
		}
		row[name] = value
	}
	if err := Invalid("the row does not fit table "+t.Name, issues); err != nil {
		return nil, err
	}
	made, err := EncodeJSON(row)
	if err == nil && len(made) > MaxRowBytes {
		return nil, Errorf(CodeTooLarge, "a row holds at most %d bytes, this has %d", MaxRowBytes, len(made))
	}
	return made, err
}

// Fits returns why a value does not fit the column; "" if it does.
func (c *Column) Fits(raw json.RawMessage) (message string) {
	_, message = c.Type.convert(raw)
	return message
}

// convert returns a value in the form of the column, or why it cannot.
func (t ColumnType) convert(raw json.RawMessage) (value json.RawMessage, message string) {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, "the value is not JSON"
	}
	ok := t == ColumnJSON
	switch v := v.(type) {
	case string:
		if t == ColumnDatetime {
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return nil, "want a time such as 2030-01-31T08:00:00Z"
			}
			value, err := EncodeJSON(at.UTC())
			if err != nil {
				return nil, err.Error()
			}
			return value, ""
		}
		ok = ok || t == ColumnString
	case json.Number:
		f, err := v.Float64()
		ok = ok || t == ColumnNumber && err == nil && !math.IsInf(f, 0)
	case bool:
		ok = ok || t == ColumnBoolean
	}
	if !ok {
		return nil, fmt.Sprintf("want a value of type %s", t) // the value itself is not quoted, because errors are stored
	}
	return raw, ""
}
