package definitions

import "github.com/lockstep-run/lockstep/shared/definition/program"

// Triggered is what a trigger of the definition makes of a call.
func (d *Definition) Triggered(name string, call program.Call) (program.Triggered, error) {
	return d.compiled.Triggered(name, call)
}
