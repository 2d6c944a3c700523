package definition

import (
	"encoding/json"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// insert reads the row that a step puts into a table. Its values are the parameters of the step.
func (r *reader) insert(s *spec.Step) yamldoc.Field {
	in := &spec.Insert{}
	var row json.RawMessage
	return yamldoc.Named("insert", r.Object(yamldoc.Fields{
		"table": r.name(&in.Table).Required("name the table"),
		"row": r.columns(r.Raw(&row, true), yamldoc.Schema{}).Required("say which values the row has").Then(r.Reader, func(n ast.Node, path string) {
			if len(row) > workflow.MaxRowBytes {
				r.Report(n, path, "limit", "a row holds at most %d bytes", workflow.MaxRowBytes)
			}
		}),
	}).Finally(func(ast.Node, string) {
		s.Insert, s.Parameters = in, row
	}))
}
