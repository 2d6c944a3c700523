package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newTables(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tables [NAME]",
		Short:   "List the tables that pipes fill, or show one",
		Example: "  lockstep tables\n  lockstep tables put payments.yaml\n  lockstep tables rows payments --where 'amount > 100'\n  lockstep tables export payments --format csv > payments.csv",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				v, err := api.Table(cmd.Context(), args[0])
				if err := printTenantTable(cmd, c, v, err); err != nil || c.json() {
					return err
				}
				tried, err := api.TableDeliveries(cmd.Context(), args[0])
				if failed := notStored(tried); err == nil && len(failed) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "rows of %d deliveries are not stored, the newest because: %s\n\"lockstep tables deliveries %s\" lists them, \"lockstep tables retry %s\" tries them again now\n", len(failed), render.OneLine(failed[0].Error), v.Name, v.Name)
				}
				return render.AsServiceError(err)
			}
			return printListOrNote(cmd, c, api.Tables(cmd.Context()), 0, []string{"NAME", "COLUMNS", "KEPT", "DESCRIPTION"}, func(v views.TableView) []string {
				return []string{v.Name, strings.Join(columnTexts(v), " "), keptText(v), render.OrDash(v.Description)}
			}, "there are no tables")
		},
	}
	cmd.AddCommand(newTablesPut(c), newTablesRows(c), newTablesExport(c), newTablesDeliveries(c), newTablesRetry(c))
	return cmd
}

func newTablesPut(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "put FILE",
		Short: "Make a table as a file says, or add columns to it",
		Long:  "Make a table, or change the one of that name: columns can be added and hidden, and stay as they are. FILE is YAML or JSON with name,\ncolumns (each with name, type, required and hidden), description and retention; - reads standard input.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := readSource(cmd, args[0])
			if err != nil {
				return err
			}
			name, req, err := parseTable(source)
			if err != nil {
				return &render.FileError{Path: args[0], Err: err}
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.PutTable(cmd.Context(), name, req)
			return printTenantTable(cmd, c, v, err)
		},
	}
}

// parseTable reads a table from YAML or JSON.
func parseTable(source []byte) (name string, req views.TableRequest, err error) {
	raw, err := yaml.YAMLToJSON(source)
	if err != nil {
		return "", req, err
	}
	table := struct {
		Name string `json:"name"`
		*views.TableRequest
	}{TableRequest: &req}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&table); err != nil {
		return "", req, workflow.JSONError(err)
	}
	if table.Name == "" {
		return "", req, errors.New("it has no name")
	}
	return table.Name, req, nil
}

func newTablesRows(c *connection) *cobra.Command {
	var where, after string
	var limit int
	cmd := &cobra.Command{
		Use:   "rows NAME",
		Short: "List rows of a table, those of the oldest execution first",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printListOrNote(cmd, c, api.Rows(cmd.Context(), args[0], where, after), limit, []string{"AT", "EXECUTION", "STEP", "VALUES"}, func(v views.RowView) []string {
				return []string{v.At.Local().Format(time.DateTime), v.Execution, v.Step, string(v.Values)}
			}, "there are no rows")
		},
	}
	addRowFilters(cmd, &where, &after)
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many; 0 for all")
	return cmd
}

func addRowFilters(cmd *cobra.Command, where, after *string) {
	cmd.Flags().StringVar(after, "after", "", "only the rows that follow the one with this id")
	cmd.Flags().StringVar(where, "where", "", "only rows of which this expression is true, over columns by name, and row.id, row.at, row.execution, row.workflow and row.step")
}

func newTablesExport(c *connection) *cobra.Command {
	var where, after, format string
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Write all rows of a table as lines of JSON, or as CSV",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "ndjson" && format != "csv" {
				return fmt.Errorf("--format wants ndjson or csv, not %q", format)
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			table, err := api.Table(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			lines := json.NewEncoder(cmd.OutOrStdout())
			lines.SetEscapeHTML(false)
			cells := csv.NewWriter(cmd.OutOrStdout())
			head := []string{"_id", "_at", "_execution", "_workflow", "_step"}
			table.Columns = slices.DeleteFunc(table.Columns, func(column views.ColumnView) bool { return column.Hidden })
			for _, column := range table.Columns {
				head = append(head, column.Name)
			}
			if format == "csv" {
				_ = cells.Write(head) // kept for Error
			}
			for row, err := range api.Rows(cmd.Context(), args[0], where, after) {
				if err != nil {
					cells.Flush() // the rows so far; the caller gets err
					return render.AsServiceError(err)
				}
				if format == "ndjson" {
					if err := lines.Encode(row); err != nil {
						return err
					}
					continue
				}
				line, err := rowCells(table, row)
				if err != nil {
					return err
				}
				_ = cells.Write(line)
			}
			cells.Flush()
			return cells.Error()
		},
	}
	addRowFilters(cmd, &where, &after)
	cmd.Flags().StringVar(&format, "format", "ndjson", "ndjson, a line of JSON for each row; or csv, with a first line of names")
	return cmd
}

// rowCells returns the cells of a row: text as it is, any other value as JSON, "" for none.
func rowCells(table views.TableView, row views.RowView) ([]string, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(row.Values, &values); err != nil {
		return nil, err
	}
	cells := []string{row.ID, row.At.Format(time.RFC3339Nano), row.Execution, row.Workflow, row.Step}
	for _, column := range table.Columns {
		text := string(values[column.Name])
		if column.Type == workflow.ColumnString || column.Type == workflow.ColumnDatetime {
			_ = json.Unmarshal(values[column.Name], &text) // anything but text stays as it is
		}
		cells = append(cells, text)
	}
	return cells, nil
}

func newTablesDeliveries(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "deliveries NAME",
		Short: "List the newest deliveries of rows that have failed, and what became of each when it was tried last",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			all, err := api.TableDeliveries(cmd.Context(), args[0])
			return printDeliveries(cmd, c, all, err, "no delivery of rows has failed in the last seven days")
		},
	}
}

// notStored returns the deliveries of rows that are not known to be stored.
func notStored(tried []workflow.DeliveryAttempt) []workflow.DeliveryAttempt {
	return slices.DeleteFunc(slices.Clone(tried), func(a workflow.DeliveryAttempt) bool { return a.Delivered })
}

func newTablesRetry(c *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Try the rows again now that the table did not take",
		Long: "Try the rows again now that the table did not take: those of the deliveries that \"lockstep tables deliveries NAME\" lists\n" +
			"as failed. They are tried again by themselves for a day, at longer and longer intervals, and are then dead letters. Correct\n" +
			"what was wrong before, such as a column that is missing. A row is stored once, however often it is tried.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.RetryRows(cmd.Context(), args[0], reason)
			text := "no delivery of rows waits to be tried again"
			if v.Retried > 0 {
				text = fmt.Sprintf("the rows of %d step runs are tried again; \"lockstep tables deliveries %s\" says what becomes of them", v.Retried, args[0])
			}
			if v.Lost > 0 {
				text += fmt.Sprintf("\nthose of %d step runs are lost: their executions have been removed", v.Lost)
			}
			return printText(cmd, c, v, err, text)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func printTenantTable(cmd *cobra.Command, c *connection, v views.TableView, err error) error {
	if err != nil || c.json() {
		return printText(cmd, c, v, err, "")
	}
	text := fmt.Sprintf("%s  rows are kept %s", v.Name, keptText(v))
	if v.Description != nil {
		text += "\n" + *v.Description
	}
	return printText(cmd, c, v, nil, strings.Join(append([]string{text}, columnTexts(v)...), "\n  "))
}

func keptText(v views.TableView) string {
	if v.Retention == nil {
		return "for ever"
	}
	return v.Retention.Std().String()
}

// columnTexts formats the columns: name and type, with a star if required, in parentheses if hidden.
func columnTexts(v views.TableView) (texts []string) {
	for _, column := range v.Columns {
		text := column.Name + ":" + string(column.Type)
		if column.Required {
			text += "*"
		}
		if column.Hidden {
			text = "(" + text + ")"
		}
		texts = append(texts, text)
	}
	return texts
}
