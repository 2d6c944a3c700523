package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The warning about an unregistered block names the one that was probably meant.
func TestCatalog_UnknownBlockNamesNearest(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for _, name := range []string{"upgrade", "show_version"} {
		if _, err := c.RegisterBlock(ctx, ann, workflow.Block{Package: "fleet", Name: name, Version: "1.0.0"}); err != nil {
			t.Fatal(err)
		}
	}
	for block, want := range map[string]string{
		"fleet/show_verison:1": "registered; did you mean \"fleet/show_version\"?",
		"fleet/upgrade:2":      "registered; there are other versions of fleet/upgrade",
		"nobody/has":           "until one is registered",
	} {
		p, _, err := c.Publish(ctx, ann, []byte("package: p\nname: w\nversion: 1.0.0\nsteps: [{label: a, functionBlock: \""+block+"\", runOn: global}]\n"), true)
		if err != nil || len(p.Warnings) != 1 || !strings.HasSuffix(p.Warnings[0].Message, want) {
			t.Errorf("%s: %+v, %v, want %q", block, p.Warnings, err, want)
		}
	}
}

// TestCatalog_PublishWarnings: a valid definition that does not fit what is registered is published with
// warnings that have positions.
func TestCatalog_PublishWarnings(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	for _, b := range []workflow.Block{
		{Package: "fleet", Name: "upgrade", Version: "1.0.0", RunOn: "device", ParameterSchema: []byte(
			`{"type":"object","additionalProperties":false,"required":["target","former"],"properties":{"target":{"type":"string"},"former":{"type":"string"},"wait":{"type":"integer"}}}`)},
		{Package: "fleet", Name: "report", Version: "1.0.0"},
		{Package: "fleet", Name: "show", Version: "1.0.0", Pure: true, ResultSchema: []byte(
			`{"type":"object","properties":{"version":{"type":"string"},"disk":{"type":"object","additionalProperties":false,"properties":{"free":{"type":"integer"}}},"more":{"type":"object"}}}`)},
		{Package: "fleet", Name: "open", Version: "1.0.0", ResultSchema: []byte(`{"type":"object","properties":{"a":{}},"additionalProperties":true}`)},
		{Package: "fleet", Name: "bare", Version: "1.0.0", ResultSchema: []byte(`{"type":"object"}`)},
		{Package: "fleet", Name: "none", Version: "1.0.0", ResultSchema: []byte(`{"type":"object","properties":{}}`)},
		{Package: "fleet", Name: "closed", Version: "1.0.0", ResultSchema: []byte(`{"type":"object","additionalProperties":false}`)},
		{Package: "fleet", Name: "counts", Version: "1.0.0", ResultSchema: []byte(`{"type":"object","additionalProperties":{"type":"integer"}}`)},
		{Package: "fleet", Name: "left", Version: "1.0.0", ResultSchema: []byte(`{"type":"object","properties":{"a":{}},"unevaluatedProperties":{"type":"integer"}}`)},
	} {
		if _, err := c.RegisterBlock(ctx, ann, b); err != nil {
			t.Fatal(err)
		}
	}
	for _, config := range []string{"careful\nversion: 1.0.0\nconfig: {failureTolerance: 1, timeout: 1h, onLocked: fail}", "bounded\nversion: 1.0.0\nconfig: {failureTolerance: 1, maxInFlight: 3, onLocked: wait}", "leaving\nversion: 1.0.0\nconfig: {onEntityFailure: leave}"} {
		if _, _, err := c.Publish(ctx, ann, []byte("package: p\nname: "+config+"\nsteps:\n  - {label: a, functionBlock: fleet/show, runOn: device}\n"), false); err != nil {
			t.Fatal(err)
		}
	}
	for name, steps := range map[string]string{
		"asks":  "[{label: b, workflow: {steps: [{label: sure, wait: {input: {title: Sure?}}}]}}]",
		"signs": "[{label: sure, wait: {approval: {title: Sure?}}}]",
		"rests": "[{label: rest, wait: {for: 1h}}]",
	} {
		if _, _, err := c.Publish(ctx, ann, []byte("package: p\nname: "+name+"\nversion: 1.0.0\nsteps: "+steps+"\n"), false); err != nil {
			t.Fatal(err)
		}
	}
	head := "package: p\nname: %s\nversion: 1.0.0\nparameters: {type: object, additionalProperties: false, properties: {target: {type: string}}}\nsteps:\n"
	for name, test := range map[string]struct {
		head  string // another one
		steps string
		want  []string
	}{
		"fits": {steps: "  - {label: a, functionBlock: fleet/upgrade:1, runOn: device, parameters: {target: \"${parameters.target}\", former: \"1\"}}\n"},
		"unknown": {
			steps: "  - {label: a, functionBlock: fleet/upgrade:2, runOn: device}\n  - {label: b, functionBlock: nobody/has, runOn: global}\n",
			want:  []string{"6:31 steps[0].functionBlock unknown_block", "7:31 steps[1].functionBlock unknown_block"},
		},
		"run_on": {
			steps: "  - {label: a, functionBlock: fleet/upgrade, runOn: global, parameters: {target: a, former: b}}\n  - {label: b, functionBlock: fleet/report, runOn: site}\n",
			want:  []string{"6:53 steps[0].runOn run_on"},
		},
		"parameters": {
			steps: "  - label: a\n    functionBlock: fleet/upgrade\n    runOn: device\n    parameters:\n      target: 7\n      wait: \"${1 + 1}\"\n      colour: red\n",
			want: []string{
				"10:7 steps[0].parameters.former required", "10:15 steps[0].parameters.target type", "12:15 steps[0].parameters.colour additionalProperties",
			},
		},
		"questions": {
			head: "package: p\nname: %s\nversion: 1.0.0\nsteps:\n",
			steps: "  - {label: a, wait: {input: {deadline: 1h, onTimeout: {next: timed1}}}, next: end}\n  - {label: timed1, set: {x: 1}, next: b}\n" +
				"  - {label: b, wait: {approval: {deadline: 1h, onTimeout: {next: timed2}, onReject: {next: rejected}}}, next: end}\n" +
				"  - {label: timed2, set: {x: 1}, next: end}\n  - {label: rejected, set: {x: 1}, next: end}\n",
		},
		"results": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\n" +
				"  - {label: b, functionBlock: fleet/open, runOn: device, condition: a.result.verion != parameters.target}\n" +
				"  - {label: c, functionBlock: fleet/show, runOn: device, condition: a.result.disk.fre > 0, assert: a.result.version.size() > 0}\n" +
				"  - {label: d, functionBlock: fleet/show, runOn: device, condition: \"has(a.result.verion) || a.result.more.x == 'a.result.y' || b.result.any\"}\n" +
				"  - {label: e, functionBlock: fleet/show, runOn: device, parameters: {x: \"${a.result.versoin}\"}}\n",
			want: []string{
				"10:70 steps[4].parameters unknown_result", "7:69 steps[1].condition unknown_result", "8:69 steps[2].condition unknown_result",
			},
		},
		"results_that_no_property_declares": {
			steps: "  - {label: a, functionBlock: fleet/bare, runOn: device}\n" +
				"  - {label: b, functionBlock: fleet/none, runOn: device, condition: a.result.x == 1}\n" +
				"  - {label: c, functionBlock: fleet/closed, runOn: device, condition: b.result.x == 1}\n" +
				"  - {label: d, functionBlock: fleet/counts, runOn: device, condition: c.result.x == 1}\n" +
				"  - {label: e, functionBlock: fleet/left, runOn: device, condition: d.result.x == 1}\n" +
				"  - {label: f, functionBlock: fleet/show, runOn: device, condition: \"e.result.x == 1 && a.result.size() > 0\"}\n",
			want: []string{"7:69 steps[1].condition unknown_result", "8:71 steps[2].condition unknown_result", "9:71 steps[3].condition unknown_result"},
		},
		"results_by_name": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\n" +
				"  - {label: b, functionBlock: fleet/open, runOn: device, condition: \"a.result['verion'] != 'x'\"}\n" +
				"  - {label: c, functionBlock: fleet/show, runOn: device, condition: 'a.result[\"disk\"][\"fre\"] > 0', assert: \"a.result['version'].size() > 0\"}\n" +
				"  - {label: d, functionBlock: fleet/show, runOn: device, condition: \"a.results['verion'].version == 'a.result[verion]'\"}\n",
			want: []string{"7:69 steps[1].condition unknown_result", "8:69 steps[2].condition unknown_result"},
		},
		"texts": {
			head: "package: p\nname: %s\nversion: 1.0.0\nparameters: {type: object, required: [sites], properties: {sites: {type: array}, who: {type: object, properties: {name: {type: string}, roles: {type: array}}}, any: {}}}\nsteps:\n",
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\n" +
				"  - {label: b, wait: {approval: {title: \"To ${parameters.sites}?\", show: {all: \"${parameters.sites}\"}, deadline: 1h}}}\n" +
				"  - {label: c, set: {x: \"by ${parameters.who.roles}\"}}\n" +
				"  - {label: d, wait: {input: {title: \"of ${ a.results }\", deadline: 1h}}}\n" +
				"  - {label: e, set: {x: \"${parameters.sites.join(', ')} ${parameters.who.name} ${parameters.any} ${size(a.results)}\", y: \"${parameters.who}\"}}\n",
			want: []string{"7:41 steps[1].wait.approval.title not_text", "8:21 steps[2].set not_text", "9:38 steps[3].wait.input.title not_text"},
		},
		"flow": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: global, outputKey: order.shown, next: e}\n" +
				"  - {label: b, workflow: {steps: [{label: c, functionBlock: fleet/show, runOn: global}]}}\n" +
				"  - {label: d, set: {x: 1}}\n" +
				"  - {label: e, functionBlock: fleet/report, runOn: global, outputKey: note, onFailure: h}\n" +
				"  - {label: f, switch: [{when: \"vars.order.shown == '1' && has(vars.nothing)\", next: e}, {when: vars.ordr.shown == '1', steps: [{label: g, functionBlock: fleet/show, runOn: global, next: i}]}, {default: j}]}\n" +
				"  - {label: h, functionBlock: fleet/open, runOn: device, input: {keys: [note, target, odrer]}}\n" +
				"  - {label: i, onFailure: end, workflow: {steps: [{label: k, functionBlock: fleet/open, runOn: device, continueOnError: true}]}}\n" +
				"  - {label: j, functionBlock: fleet/open, runOn: device, failureTolerance: 100%, onFailure: [{next: a}]}\n" +
				"  - {label: l, functionBlock: fleet/open, runOn: device, continueOnError: true, next: end}\n" +
				"  - {label: m, set: {y: 1}}\n",
			want: []string{
				"10:97 steps[4].switch[1].when unset_variable", "11:65 steps[5].input unset_variable", "12:27 steps[6].onFailure no_effect", "13:93 steps[7].onFailure no_effect",
				"15:5 steps[9] unreachable", "7:5 steps[1] unreachable", "8:5 steps[2] unreachable", "9:71 steps[3].outputKey no_result_schema",
			},
		},
		"shared": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\n  - {label: b, functionBlock: fleet/report, runOn: device}\nconfig: {lockMode: shared}\n",
			want:  []string{"7:31 steps[1].functionBlock not_pure"},
		},
		"compensations": {
			steps: "  - {label: a, functionBlock: fleet/upgrade, runOn: device, parameters: {target: a, former: b}, compensate: {functionBlock: fleet/upgrade, parameters: {target: a, formr: b}}}\n" +
				"  - {label: b, functionBlock: fleet/show, runOn: device, compensate: {functionBlock: nobody/has}}\n",
			want: []string{
				"6:125 steps[0].compensate.functionBlock not_idempotent", "6:152 steps[0].compensate.parameters.former required", "6:171 steps[0].compensate.parameters.formr additionalProperties",
				"7:70 steps[1].compensate pure", "7:86 steps[1].compensate.functionBlock unknown_block",
			},
		},
		"undoing": {
			steps: "  - {label: a, workflowReference: {workflow: p/rests:1, mode: dispatch}, compensate: {workflow: p/asks:1}}\n" +
				"  - {label: b, workflowReference: {workflow: p/rests:1, mode: dispatch}, compensate: {workflow: p/signs:1}}\n" +
				"  - {label: c, workflowReference: {workflow: p/rests:1, mode: dispatch}, compensate: {workflow: p/rests:1}}\n" +
				"  - {label: d, workflowReference: {workflow: p/rests:1, mode: dispatch}, compensate: {workflow: p/nobody:1}}\n",
			want: []string{
				"6:97 steps[0].compensate.workflow waits_for_person", "7:97 steps[1].compensate.workflow waits_for_person", "9:97 steps[3].compensate.workflow unknown_workflow",
			},
		},
		"answers": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: global, callback: {schema: {type: object}}}\n  - {label: b, set: {ok: '${a.result.ok}'}}\n",
		},
		"seconds": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\ntriggers: {cron: {schedule: '0 0 * * * *'}}\n",
			want:  []string{"7:29 triggers.cron.schedule seconds"},
		},
		"other_results": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\n" +
				"  - {label: b, functionBlock: fleet/open, runOn: device, condition: \"a.results['sw-1'].verion == a.results[entity.peer].version\"}\n",
			want: []string{"7:69 steps[1].condition unknown_result"},
		},
		"other_fields": {
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device}\n" +
				"  - {label: b, functionBlock: fleet/show, runOn: device, condition: a.status == \"COMPLETED\" && steps.a.status == \"COMPLETED\" && entity.a.status == 'a.status'}\n",
			want: []string{"7:69 steps[1].condition unknown_field"},
		},
		"undeclared_parameters": {
			head: "package: p\nname: %s\nversion: 1.0.0\nparameters: {type: object, properties: {target: {type: string}}}\nsteps:\n",
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device, condition: parameters.targt != parameters.target}\n" +
				"  - {label: b, functionBlock: fleet/show, runOn: device, condition: \"has(parameters.more) && entity.parameters.x == 'parameters.y'\"}\n",
			want: []string{"6:69 steps[0].condition unknown_parameter"},
		},
		"open_parameters": {
			head:  "package: p\nname: %s\nversion: 1.0.0\nparameters: {type: object, properties: {target: {type: string}}, additionalProperties: true}\nsteps:\n",
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device, condition: parameters.targt != parameters.target}\n",
		},
		"no_parameters": {
			head:  "package: p\nname: %s\nversion: 1.0.0\nparameters: {type: object}\nsteps:\n",
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device, condition: parameters.target == 1}\n",
			want:  []string{"6:69 steps[0].condition unknown_parameter"},
		},
		"no_schema": {
			head:  "package: p\nname: %s\nversion: 1.0.0\nsteps:\n",
			steps: "  - {label: a, functionBlock: fleet/show, runOn: device, condition: parameters.targt != parameters.target}\n",
		},
		"embedded_config": {
			steps: "  - {label: a, workflowReference: {workflow: p/careful}}\n  - {label: b, workflowReference: {workflow: p/careful, mode: dispatch}}\n" +
				"  - {label: c, workflowReference: {workflow: p/bounded}}\n  - {label: d, workflowReference: {workflow: p/leaving}}\n",
			want: []string{"6:46 steps[0].workflowReference.workflow embedded_config", "9:46 steps[3].workflowReference.workflow embedded_config"},
		},
		"reference": {
			steps: "  - {label: a, workflowReference: {workflow: p/none, mode: dispatch}}\n",
			want:  []string{"6:46 steps[0].workflowReference.workflow unknown_workflow"},
		},
		"reference_among": {
			steps: "  - {label: a, workflowReference: {workflow: \"${parameters.target}\", among: [p/careful, p/none], mode: dispatch}}\n",
			want:  []string{"6:89 steps[0].workflowReference.among[1] unknown_workflow"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			head := head
			if test.head != "" {
				head = test.head
			}
			for _, dry := range []bool{true, false, false} { // the last one finds it published
				p, _, err := c.Publish(ctx, ann, []byte(fmt.Sprintf(head, name)+test.steps), dry)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, i := range p.Warnings {
					got = append(got, fmt.Sprintf("%d:%d %s %s", i.Line, i.Column, i.Path, i.Code))
				}
				if !slices.IsSortedFunc(p.Warnings, func(a, b workflow.Issue) int { return a.Line - b.Line }) {
					t.Errorf("dry %v: not in the order of lines: %q", dry, got)
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(test.want))
				if !slices.Equal(got, want) {
					t.Errorf("dry %v: warns of\n%q, want\n%q\n%v", dry, got, want, p.Warnings)
				}
			}
			if p, err := c.Definition(ctx, ann, workflow.Ref{Package: "p", Name: name, Version: "1.0.0"}); err != nil || p.Warnings != nil {
				t.Errorf("the stored definition has warnings %v, %v", p.Warnings, err)
			}
		})
	}
}

// TestCatalog_PublishRefusesUndeclaredParameter: an expression that reads a parameter which the
// definition's own schema forbids is refused with everything else that is wrong.
func TestCatalog_PublishRefusesUndeclaredParameter(t *testing.T) {
	source := []byte("package: p\nname: w\nversion: 1.0.0\nparameters: {type: object, additionalProperties: false, properties: {target: {type: string}}}\n" +
		"steps:\n  - {label: a, functionBlock: fleet/report, runOn: device, condition: \"parameters.targt == 'parameters.other' && entity.parameters.x == 1\", delay: long}\n")
	_, _, err := newCatalog().Publish(context.Background(), ann, source, true)
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) != 2 {
		t.Fatalf("got %v", err)
	}
	if got, want := e.Issues[0].String(), `6:71 steps[0].condition: the definition takes no parameter "targt"; did you mean "target"?`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if e.Issues[1].Code != "duration" {
		t.Errorf("then %s", e.Issues[1])
	}
}

// TestCatalog_PublishMemoryIsBounded: the text is parsed once for all warnings, not once for each. The
// memory of publishing grows with the text, not with the text times the warnings.
func TestCatalog_PublishMemoryIsBounded(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	if _, err := c.RegisterBlock(ctx, ann, workflow.Block{Package: "p", Name: "b", Version: "1.0.0",
		ParameterSchema: json.RawMessage(`{"type":"object","required":["target"]}`)}); err != nil {
		t.Fatal(err)
	}
	source := func(block string) []byte {
		var b strings.Builder
		b.WriteString("package: p\nname: n\nversion: 1.0.0\nseedEntity: device\nsteps:\n")
		list := strings.TrimSuffix(strings.Repeat("1,", 80), ",")
		for i := range 100 {
			fmt.Fprintf(&b, "  - {label: a%d, functionBlock: %s, runOn: device, rawParameters: {x: [%s]}}\n", i, block, list)
		}
		return []byte(b.String())
	}
	publish := func(block string) (mib int, warnings []workflow.Issue) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, _, err := c.Publish(ctx, ann, source(block), true)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return int(after.TotalAlloc-before.TotalAlloc) >> 20, p.Warnings
	}
	mib, warnings := publish("p/b")
	if mib > 200 {
		t.Errorf("publishing allocates %d MiB", mib)
	}
	if len(warnings) != 100 || warnings[99].Line != 105 || warnings[99].Path != "steps[99].parameters.target" {
		t.Errorf("%d warnings, the last %+v", len(warnings), warnings[len(warnings)-1])
	}
}

// A region that the stage's setting does not name is published with a warning at its place, unless
// the stage names no regions.
func TestCatalog_WarnsOfUnknownRegions(t *testing.T) {
	source := []byte("package: p\nname: w\nversion: 1.0.0\nconfig: {region: mars}\nsteps:\n  - {label: a, workflowReference: {workflow: 'p/w:1', mode: dispatch, region: moon}}\n  - {label: b, workflowReference: {workflow: 'p/w:1', mode: dispatch, region: eu}}\n")
	for _, test := range []struct {
		known []string
		want  string
	}{
		{nil, ""},
		{[]string{"asia", "eu"}, "4:18 config.region only asia, eu; 6:79 steps[0].workflowReference.region only asia, eu; "},
		{[]string{}, "4:18 config.region no region; 6:79 steps[0].workflowReference.region no region; 7:79 steps[1].workflowReference.region no region; "},
	} {
		world := sim.New(1)
		c := catalog.New(func() catalog.Ports {
			v := world.Open()
			return catalog.Ports{Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Regions: test.known}
		}, time.Now)
		p, _, err := c.Publish(t.Context(), ann, source, false)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range p.Warnings {
			names, _, _ := strings.Cut(strings.TrimPrefix(w.Message, "the setting regions of this stage names "), ":")
			got += fmt.Sprintf("%d:%d %s %s; ", w.Line, w.Column, w.Path, names)
		}
		if got != test.want {
			t.Errorf("%v: %s", test.known, got)
		}
	}
}

// Publishing warns of a workflow that the end cannot start, or that starts itself.
func TestCatalog_WarnsOfWhatAnEndCannotStart(t *testing.T) {
	c, ctx := newCatalog(), context.Background()
	steps := "steps: [{label: a, wait: {for: 1h}}]\n"
	for _, d := range []string{
		"package: p\nname: clean\nversion: 1.0.0\nparameters: {type: object, required: [of], properties: {of: {type: string}, n: {type: integer}}, additionalProperties: false}\n" + steps,
		"package: p\nname: secret\nversion: 1.0.0\nparameters: {type: object, properties: {token: {type: string, x-sealed: true}}}\n" + steps,
	} {
		if _, _, err := c.Publish(ctx, ann, []byte(d), false); err != nil {
			t.Fatal(err)
		}
	}
	for onEnd, want := range map[string][]string{
		"completed: {workflow: 'p/clean:1', parameters: {of: '${execution.id}'}}":  nil,
		"completed: {workflow: 'p/clean:1', parameters: {n: one, m: 1}}":           {"onEnd.completed.parameters.m additionalProperties", "onEnd.completed.parameters.n type", "onEnd.completed.parameters.of required"},
		"completed: {workflow: 'p/clean:1', parameters: {off: '${execution.id}'}}": {"onEnd.completed.parameters.of required", "onEnd.completed.parameters.off additionalProperties"},
		"failed: {workflow: 'p/clean:2'}":                                          {"onEnd.failed.workflow unknown_workflow"},
		"cancelled: {workflow: 'p/secret'}":                                        {"onEnd.cancelled.workflow sealed"},
		"failed: {workflow: 'p/w:1'}":                                              {"onEnd.failed.workflow starts_itself"},
	} {
		p, _, err := c.Publish(ctx, ann, []byte("package: p\nname: w\nversion: 1.0.0\n"+steps+"onEnd: {"+onEnd+"}\n"), true)
		var got []string
		for _, i := range p.Warnings {
			if strings.HasPrefix(i.Path, "onEnd") {
				if got = append(got, i.Path+" "+i.Code); i.Line != 5 {
					t.Errorf("%s is at line %d", i.Path, i.Line)
				}
			}
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", onEnd, got, err, want)
		}
	}
}
