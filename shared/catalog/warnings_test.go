package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A definition that is valid but does not fit what is registered is published
// with warnings that name the places.
func TestWarnings(t *testing.T) {
	c, ctx := open(), context.Background()
	for _, b := range []workflow.Block{
		{Package: "fleet", Name: "upgrade", Version: "1.0.0", RunOn: "device", ParameterSchema: []byte(
			`{"type":"object","additionalProperties":false,"required":["target","former"],"properties":{"target":{"type":"string"},"former":{"type":"string"},"wait":{"type":"integer"}}}`)},
		{Package: "fleet", Name: "report", Version: "1.0.0"},
	} {
		if _, err := c.RegisterBlock(ctx, ann, b); err != nil {
			t.Fatal(err)
		}
	}
	head := "package: p\nname: %s\nversion: 1.0.0\nparameters: {type: object, additionalProperties: false, properties: {target: {type: string}}}\nsteps:\n"
	for name, test := range map[string]struct {
		steps string
		want  []string
	}{
		"fits": {steps: "  - {label: a, functionBlock: fleet/upgrade:1, runOn: device, parameters: {target: \"${parameters.target}\", former: \"1\"}}\n"},
		"unknown": {
			steps: "  - {label: a, functionBlock: fleet/upgrade:2, runOn: device}\n  - {label: b, functionBlock: nobody/has, runOn: global}\n",
			want:  []string{"6:31 steps[0].functionBlock unknown_block", "7:31 steps[1].functionBlock unknown_block"},
		},
		"runs_on": {
			steps: "  - {label: a, functionBlock: fleet/upgrade, runOn: global, parameters: {target: a, former: b}}\n  - {label: b, functionBlock: fleet/report, runOn: site}\n",
			want:  []string{"6:53 steps[0].runOn run_on"},
		},
		"parameters": {
			steps: "  - label: a\n    functionBlock: fleet/upgrade\n    runOn: device\n    parameters:\n      target: 7\n      wait: \"${1 + 1}\"\n      colour: red\n",
			want: []string{
				"10:7 steps[0].parameters.former required", "10:15 steps[0].parameters.target type", "12:15 steps[0].parameters.colour additionalProperties",
			},
		},
		"undeclared": {
			steps: "  - {label: a, functionBlock: fleet/report, runOn: device, condition: \"parameters.targt == 'parameters.other' && entity.parameters.x == 1\"}\n",
			want:  []string{"6:71 steps[0].condition unknown_parameter"},
		},
		"reference": {
			steps: "  - {label: a, workflowReference: {workflow: p/none, mode: dispatch}}\n",
			want:  []string{"6:46 steps[0].workflowReference.workflow unknown_workflow"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dry := range []bool{true, false, false} { // also where it is published already
				p, _, err := c.Publish(ctx, ann, []byte(fmt.Sprintf(head, name)+test.steps), dry)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, i := range p.Warnings {
					got = append(got, fmt.Sprintf("%d:%d %s %s", i.Line, i.Column, i.Path, i.Code))
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(test.want))
				if !slices.Equal(got, want) {
					t.Errorf("dry %v: warns of\n%q, want\n%q\n%v", dry, got, want, p.Warnings)
				}
			}
			if p, err := c.Definition(ctx, ann, workflow.Ref{Package: "p", Name: name, Version: "1.0.0"}); err != nil || p.Warnings != nil {
				t.Errorf("it is stored with %v, %v", p.Warnings, err)
			}
		})
	}
}
