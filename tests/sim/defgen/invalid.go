package defgen

// Changing is the name of a definition that changes devices: it is valid by itself, but not if an
// invalid definition embeds it.
const Changing = "b0"

// Changes returns the definition with that name.
func Changes() *Definition {
	return &Definition{Unpredictable: true, Steps: []*Step{{Label: "s0", Body: &Block{Name: "again", OnDevice: true}}}}
}

// Invalid returns a definition that can be published but is refused whenever it is combined with
// the definition that it embeds: it shares its locks, or two of its branches change the same
// entities.
func Invalid(number int) *Definition {
	d := &Definition{Unpredictable: true, Refused: "config: {lockMode: shared}\nsteps: [{label: s0, functionBlock: p/pure:1, runOn: device}, {label: s1, workflowReference: {workflow: p/" + Changing + ", mode: embed}}]\n"}
	if number%2 == 1 {
		d.Refused = "steps: [{label: s0, parallel: {branches: [{label: a, steps: [{label: s1, workflowReference: {workflow: p/" + Changing + ", mode: embed}}]}, " +
			"{label: b, steps: [{label: s2, functionBlock: p/again:1, runOn: device}]}]}}]\n"
	}
	return d
}
