package definitions

import "github.com/lockstep-run/lockstep/shared/definition/program"

// Triggered evaluates what a trigger of the definition derives from a call.
func (d *Definition) Triggered(name string, call program.Call) (program.Triggered, error) {
	return d.compiled.Triggered(name, call)
}
