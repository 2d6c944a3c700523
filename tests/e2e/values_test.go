package e2e

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// N10: a reference by major resolves to the newest version in numeric order, and the
// execution shows the resolved version. A reference without a match ends the execution.
func blockVersions(c *fixture) {
	for _, v := range []string{"1.0.0", "1.1.2", "2.0.0"} {
		c.registerBlock("b", workflow.Block{Version: v, Pure: true}, func(k call) blockAnswer { return okAnswer(k.Block) })
	}
	c.publishWorkflow("", "label: one, block: b:1, runOn: global", "label: two, block: b:1.0, runOn: global", "label: newest, block: b, runOn: global")
	name := "test/" + c.name + "-b"
	resolved := func() string {
		id := c.startWorkflow("{}")
		x := c.waitEnded(id, sm.ExecutionCompletedAck)
		r, err := c.Result(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		var got []string
		for _, step := range []string{"one", "two", "newest"} {
			got = append(got, strings.Trim(strings.ReplaceAll(string(r.Steps[step].Result), name+":", ""), `"`))
		}
		if x.Blocks[name+":1"] != got[0] || x.Blocks[name+":1.0"] != got[1] || x.Blocks[name] != got[2] {
			c.t.Errorf("the execution shows %v, and called %v", x.Blocks, got)
		}
		return fmt.Sprint(got)
	}
	if got := resolved(); got != "[1.1.2 1.0.0 2.0.0]" {
		c.t.Errorf("resolved to %s", got)
	}
	c.registerBlock("b", workflow.Block{Version: "1.1.10", Pure: true}, func(k call) blockAnswer { return okAnswer(k.Block) })
	if got := resolved(); got != "[1.1.10 1.0.0 2.0.0]" {
		c.t.Errorf("resolved to %s after 1.1.10 was registered", got)
	}

	id := c.startRef(c.publishExtra("third", "", "label: one, block: b:1, runOn: global", "label: three, block: b:3, runOn: global"), "{}")
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if !strings.Contains(x.Reason, name+":3") || len(c.listJobs(id, views.JobFilter{})) != 0 {
		c.t.Errorf("reason %q, jobs %v", x.Reason, c.listJobs(id, views.JobFilter{}))
	}
}

// N11: a published version is immutable. Publishing the same content again, in any format,
// is accepted; other content is a conflict and changes nothing.
func publishIsImmutable(c *fixture) {
	source := func(description string) string {
		return fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\ndescription: %s\nsteps: [{label: a, functionBlock: test/a, runOn: global}]\n", c.name, description)
	}
	same := fmt.Sprintf(`{"steps":[{"runOn":"global","functionBlock":"test/a","label":"a"}],"description":"first","version":"1.0.0","name":"w-%s","package":"test"}`, c.name)
	for _, p := range []struct {
		body string
		want int
		code string
	}{
		{source("first"), 201, ""}, {source("first"), 200, ""}, {same, 200, ""}, {source("second"), 409, "conflict"}, {source("first"), 200, ""},
	} {
		status, body := c.sendRaw("POST", "/workflow-definition/publish", "application/yaml", p.body)
		if status != p.want || !strings.Contains(body, p.code) {
			c.t.Errorf("%s\n%d %s, want %d", p.body, status, body, p.want)
		}
	}
	if status, body := c.sendPlain(c.t, "GET", "/workflow-definition/test/w-"+c.name+"/1.0.0"); status != 200 || !strings.Contains(body, "first") || strings.Contains(body, "second") {
		c.t.Errorf("%d %s", status, body)
	}
}

// N11: of many concurrent publications of one version with different content, one
// succeeds and the others get a conflict. The same holds for blocks.
func concurrentPublish(c *fixture) {
	source := func(n int) []byte {
		return fmt.Appendf(nil, "package: test\nname: w-%s\nversion: 1.0.0\ndescription: by %d\nsteps: [{label: a, functionBlock: test/a, runOn: global}]\n", c.name, n)
	}
	block := func(n int) workflow.Block {
		return workflow.Block{Package: "test", Name: c.name, Version: "1.0.0", Pool: fmt.Sprint("by-", n)}
	}
	created := func(publish func(n int) (bool, error)) int {
		winner := make(chan int, 8)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				fresh, err := publish(n)
				switch {
				case fresh && err == nil:
					winner <- n
				case fresh || !workflow.Is(err, workflow.CodeConflict):
					c.t.Errorf("%d: created %v, %v, want a conflict", n, fresh, err)
				}
			})
		}
		all.Wait()
		if len(winner) != 1 {
			c.t.Fatalf("%d publications succeeded, want 1", len(winner))
		}
		return <-winner
	}
	publish := func(n int) (bool, error) {
		_, fresh, err := c.Publish(c.t.Context(), source(n), false)
		return fresh, err
	}
	n := created(publish)
	if status, body := c.sendPlain(c.t, "GET", "/workflow-definition/test/w-"+c.name+"/1.0.0"); status != 200 || !strings.Contains(body, fmt.Sprintf("by %d", n)) {
		c.t.Errorf("publication %d succeeded, and the definition is %d %s", n, status, body)
	}
	if again, err := publish(n); again || err != nil {
		c.t.Errorf("published again: created %v, %v", again, err)
	}
	register := func(n int) (bool, error) { return c.RegisterBlock(c.t.Context(), block(n)) }
	n = created(register)
	if again, err := register(n); again || err != nil {
		c.t.Errorf("block registered again: created %v, %v", again, err)
	}
	for b, err := range c.Blocks(c.t.Context()) {
		if err != nil || b.Name == c.name && b.Pool != block(n).Pool {
			c.t.Errorf("registration %d succeeded, and the block is %+v, %v", n, b, err)
		}
	}
}

// N15: a text that is a single token becomes the value with its type.
func interpolationKeepsTypes(c *fixture) {
	c.registerBlock("take", workflow.Block{Pure: true}, func(k call) blockAnswer { return okAnswer(k.Parameters) })
	parameters := `{"n":7,"x":1.5,"no":false,"list":[1,"two",null],"object":{"a":{"b":true}},"none":null,"text":"7"}`
	steps := "label: take, block: take, runOn: global, parameters: {" +
		"n: '${parameters.n}', x: '${parameters.x}', no: '${parameters.no}', list: '${parameters.list}', object: '${parameters.object}', " +
		"none: '${parameters.none}', text: '${parameters.text}', inside: ['n is ${parameters.n}, ${parameters.no}', {deep: '${parameters.list[1]}'}], sum: '${parameters.n + 1}', plain: 3}"
	c.publishWorkflow("", steps)
	id := c.startWorkflow(parameters)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(r.Steps["take"].Result, &got); err != nil {
		c.t.Fatal(err)
	}
	text := strings.TrimSuffix(parameters, "}") + `,"inside":["n is 7, false",{"deep":"two"}],"sum":8,"plain":3}`
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		c.t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		c.t.Errorf("the block got %s\nwant %s", r.Steps["take"].Result, text)
	}
}

// N15: null inside a text is not an empty text: the execution fails and names the
// expression.
func embeddedNull(c *fixture) {
	c.registerBlock("take", workflow.Block{Pure: true}, nil)
	for name, token := range map[string]string{"null": "parameters.none", "missing": "parameters.nothing", "label": "before.result.version"} {
		id := c.startRef(c.publishExtra(name, "", "label: before, block: take, runOn: global",
			fmt.Sprintf("label: take, block: take, runOn: global, parameters: {text: 'is ${%s}.'}", token)), `{"none":null}`)
		x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
		c.wantFailure(x, workflow.CauseStepFailed, "PARAMETERS", "take")
		if !strings.Contains(x.Error.Message, token) || len(c.listJobs(id, views.JobFilter{Step: "take"})) != 0 {
			c.t.Errorf("%s: %+v, jobs %+v", name, x.Error, c.listJobs(id, views.JobFilter{Step: "take"}))
		}
	}
}

// N16: raw parameters are passed on unchanged.
func rawParameters(c *fixture) {
	text := "{{ .Device }} ${not.an.expression} {%- if x -%} $${y} <a href='&'> \\n \u2028 é"
	quoted, err := json.Marshal(text)
	if err != nil {
		c.t.Fatal(err)
	}
	c.registerBlock("take", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("", "label: take, block: take, runOn: global, parameters: {n: '${parameters.n}'}, rawParameters: {template: "+string(quoted)+", deep: [{'${key}': "+string(quoted)+"}]}")
	id := c.startWorkflow(`{"n":1}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	want := map[string]any{"n": 1.0, "template": text, "deep": []any{map[string]any{"${key}": text}}}
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id && !reflect.DeepEqual(k.Parameters, want) {
			c.t.Errorf("the block got %q\nwant %q", k.Parameters, want)
		}
	}
	if c.countCalls("take", "EXECUTE") != 1 {
		c.t.Error("the block was not called exactly once")
	}
}

// N17: parameters are checked with the block's schema before any job is sent; a wrong
// parameter of one entity fails the step.
func parameterTypeMismatch(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("produce", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.entityID() == ids[2] {
			return okAnswer(map[string]any{"n": "many"})
		}
		return okAnswer(map[string]any{"n": 1})
	})
	c.registerBlock("consume", workflow.Block{ParameterSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}, nil)
	c.publishWorkflow("", "label: produce, block: produce, runOn: KIND", "label: consume, block: consume, runOn: KIND, parameters: {n: '${produce.result.n}'}")
	id := c.startWorkflow("{}", ids...)
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "PARAMETERS", "consume")
	if deref(x.Error.Entity) != c.entityType()+"/"+ids[2] {
		c.t.Errorf("the error names %v", deref(x.Error.Entity))
	}
	if c.countCalls("consume", "EXECUTE") != 0 || len(c.listJobs(id, views.JobFilter{Step: "consume"})) != 0 {
		c.t.Error("jobs of the consumer were sent")
	}
	c.waitEnded(c.startWorkflow("{}", ids[:2]...), sm.ExecutionCompletedAck)
	if c.countCalls("consume", "EXECUTE") != 2 {
		c.t.Error("jobs with valid parameters were not sent")
	}
}
