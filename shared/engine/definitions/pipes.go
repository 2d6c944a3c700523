package definitions

import (
	"encoding/json"
	"maps"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Pipe returns a pipe of a node, by its number in the definition that the node belongs to.
func (p *Program) Pipe(node, number int) *spec.Pipe {
	return &p.Definitions[p.Nodes[node].Origin].Pipes[number]
}

// PipeValues returns the values that a pipe of a node writes into the row of a job: JSON, by
// column.
func (p *Program) PipeValues(node, number int, job *program.PipedJob) (map[string]json.RawMessage, error) {
	values, err := p.Definitions[p.Nodes[node].Origin].compiled.PipeValues(number, job)
	if err == nil {
		maps.Copy(values, p.Pipe(node, number).Static)
	}
	return values, err
}
