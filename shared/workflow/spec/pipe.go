package spec

import (
	"encoding/json"
	"slices"
)

// Pipe puts a row into a table for each job of a step that has ended as On says. Nothing in an
// execution depends on it.
type Pipe struct {
	Step   string                     `json:"step"` // label
	On     PipeOn                     `json:"on,omitempty"`
	Table  string                     `json:"table"`
	Map    map[string]string          `json:"map,omitempty"`    // CEL over the job, by column
	Static map[string]json.RawMessage `json:"static,omitempty"` // values, by column
}

// PipeOn is for which jobs a pipe makes rows: those that were executed and ended OK, those that
// failed or whose outcome is unknown, or both. A job that was never executed has no row.
type PipeOn string

// The choices; PipeOnSuccess is the default.
const (
	PipeOnSuccess PipeOn = "success"
	PipeOnFailure PipeOn = "failure"
	PipeOnAny     PipeOn = "any"
)

// MaxPipes bounds the pipes of a definition.
const MaxPipes = 20

// PipesOf returns the numbers of the pipes of a step.
func (d *Definition) PipesOf(label string) (all []int) {
	for i, p := range d.Pipes {
		if p.Step == label {
			all = append(all, i)
		}
	}
	return all
}

// Takes reports whether the pipe makes a row of a job that has ended OK, or not.
func (p *Pipe) Takes(ok bool) bool {
	return p.On == PipeOnAny || ok == (p.On == PipeOnSuccess || p.On == "")
}

// Columns returns the columns that the pipe sets, in order.
func (p *Pipe) Columns() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range p.Map {
			if !yield(name) {
				return
			}
		}
		for name := range p.Static {
			if !yield(name) {
				return
			}
		}
	})
}

// HasPipes reports whether any step of the program has a pipe.
func (p *Program) HasPipes() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return len(n.Pipes) > 0 })
}
