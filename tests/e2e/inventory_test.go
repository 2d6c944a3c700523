package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// updateAnswer is a reply that updates an entity of the fixture's type.
func (c *fixture) updateAnswer(id string, set map[string]any, remove ...string) blockAnswer {
	a := okAnswer("updated")
	a["updates"] = []any{map[string]any{"entity": map[string]string{"type": c.entityType(), "id": id}, "set": set, "remove": remove}}
	return a
}

// Updates are applied to the inventory when the execution has completed, not before. The
// execution's own later steps see them at once.
func updatesApplyOnCompletion(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		return c.updateAnswer(k.entityID(), map[string]any{"done": k.Job.Step, "of": map[string]any{"n": k.Entity.Attributes["n"]}}, "n")
	})
	c.registerBlock("check", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.entityID() == ids[0] {
			g.wait(k)
		}
		return okAnswer(map[string]any{"given": k.Parameters["done"], "attributes": k.Entity.Attributes})
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND", "label: check, block: check, runOn: KIND, condition: has(entity.done), parameters: {done: '${entity.done}'}")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	before, err := c.Entity(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[0]})
	if err != nil || string(before.Attributes) != `{"n":1}` {
		c.t.Errorf("attributes while the execution runs: %s, %v", before.Attributes, err)
	}
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if want := `{"attributes":{"done":"work","of":{"n":2}},"given":"work"}`; err != nil || string(r.Steps["check"].Results[ids[1]]) != want {
		c.t.Errorf("the next step saw %s, want %s, %v", r.Steps["check"].Results[ids[1]], want, err)
	}
	after, err := c.Entity(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[0]})
	if err != nil || string(after.Attributes) != `{"done":"work","of":{"n":1}}` || after.Version <= before.Version || after.Token <= before.Token {
		c.t.Errorf("the entity is %+v after %+v, %v", after, before, err)
	}
}

// N36: an execution that fails, safely or unsafely, or is cancelled applies no update.
func failedExecutionUpdatesNothing(c *fixture) {
	ids := c.importEntities(c.entityType(), 4)
	g := newBlockGate()
	change := func(k call) blockAnswer { return c.updateAnswer(k.entityID(), map[string]any{"changed": true}) }
	for _, b := range []workflow.Block{{Name: "pure", Pure: true}, {Name: "undo", Reversible: true}, {Name: "fire"}} {
		c.registerBlock(b.Name, b, change)
	}
	c.registerBlock("fail", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.entityID() == ids[3] {
			g.wait(k)
		}
		return errorAnswer("NO", false)
	})
	for i, w := range []struct {
		block string
		in    sm.ExecutionState
	}{{"pure", sm.ExecutionFailedSafeAck}, {"undo", sm.ExecutionFailedSafeAck}, {"fire", sm.ExecutionFailedUnsafe}, {"pure", sm.ExecutionCancelledAck}} {
		id := c.startRef(c.publishExtra(fmt.Sprint(i), "", "label: work, block: "+w.block+", runOn: KIND", "label: fail, block: fail, runOn: KIND"), "{}", ids[i])
		if w.in == sm.ExecutionCancelledAck {
			<-g.entered
			c.mustRequest(id, "cancel", "{}")
			close(g.open)
		}
		c.waitEnded(id, w.in)
		if w.in == sm.ExecutionFailedUnsafe {
			c.mustRequest(id, "acknowledge", "{}")
			c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
		}
		if got := c.entityAttributes(ids[i]); got != fmt.Sprintf(`{"n":%d}`, i+1) {
			c.t.Errorf("%s, ended %s: the entity is %s", w.block, w.in, got)
		}
	}
}

// An update of an entity that the execution does not hold fails it, and no update is
// applied.
func updateOfUnlockedEntity(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Pure: true}, func(k call) blockAnswer {
		a := c.updateAnswer(ids[1], map[string]any{"stolen": true})
		a["updates"] = append(c.updateAnswer(ids[0], map[string]any{"own": true})["updates"].([]any), a["updates"].([]any)...)
		return a
	})
	c.registerBlock("after", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("", "label: work, block: work, runOn: KIND", "label: after, block: after, runOn: KIND")
	id := c.startWorkflow("{}", ids[0])
	x := c.waitEnded(id, sm.ExecutionFailedUnsafe) // although the block is pure: it changed an entity that it did not hold
	if x.Error == nil || x.Error.Code != "ENTITY_NOT_HELD" || !strings.Contains(x.Reason, c.entityType()+"/"+ids[1]) || deref(x.Error.Step) != "work" {
		c.t.Errorf("reason %q, error %+v", x.Reason, x.Error)
	}
	c.mustRequest(id, "acknowledge", "{}")
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
	for i, id := range ids {
		if got := c.entityAttributes(id); got != fmt.Sprintf(`{"n":%d}`, i+1) {
			c.t.Errorf("%s is %s", id, got)
		}
	}
	if c.countCalls("after", "EXECUTE") != 0 {
		c.t.Error("the next step ran")
	}
}

// A result of up to 1 MiB is stored completely; a larger one fails its job with LIMIT.
func largeResults(c *fixture) {
	c.registerBlock("give", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		return okAnswer(strings.Repeat("x", int(k.Parameters["bytes"].(float64))))
	})
	c.publishWorkflow("", "label: give, block: give, runOn: global, parameters: {bytes: '${parameters.bytes}'}")
	id := c.startWorkflow(`{"bytes":600000}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	want, err := json.Marshal(strings.Repeat("x", 600000))
	if err != nil {
		c.t.Fatal(err)
	}
	if r, err := c.Result(c.t.Context(), id); err != nil || r.Truncated || string(r.Steps["give"].Result) != string(want) {
		c.t.Errorf("the result has %d bytes, truncated %v, %v", len(r.Steps["give"].Result), r.Truncated, err)
	}
	if jobs := c.listJobs(id, views.JobFilter{}); len(jobs) != 1 || string(jobs[0].Result) != string(want) {
		c.t.Errorf("%d jobs, the result has %d bytes", len(jobs), len(jobs[0].Result))
	}
	for _, bytes := range []int{1 << 20, 1100000} { // with its quotes the first is too large
		x := c.waitEnded(c.startWorkflow(fmt.Sprintf(`{"bytes":%d}`, bytes)), sm.ExecutionFailedSafeAck)
		c.wantFailure(x, workflow.CauseLimit, "LIMIT", "give")
	}
}

// executedEntities lists the entities on which an execution called a block.
func (c *fixture) executedEntities(id string) string {
	var entities []string
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id && k.Entity != nil && k.Operation == "EXECUTE" {
			entities = append(entities, k.entityID())
		}
	}
	slices.Sort(entities)
	return strings.Join(entities, " ")
}

// A block acquires the scope before anything is locked; its job is listed like any
// other. If it fails, the execution fails and nothing was locked.
func acquireByBlock(c *fixture) {
	ids := c.importEntities(c.entityType(), 5)
	c.registerBlock("find", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.Parameters["n"] == 0.0 {
			return errorAnswer("NOT_FOUND", false)
		}
		var found []any
		for _, id := range ids[:int(k.Parameters["n"].(float64))] {
			found = append(found, map[string]string{"type": c.entityType(), "id": id})
		}
		return blockAnswer{"outcome": "OK", "entities": found}
	})
	c.registerBlock("work", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("acquire: [{type: "+c.entityType()+", block: 'test/"+c.name+"-find:1', parameters: {n: '${parameters.n}'}, rawParameters: {raw: '${x}'}}]\n", "label: work, block: work, runOn: KIND")
	id := c.startWorkflow(`{"n":3}`, ids[4])
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.executedEntities(id); got != "e-0001 e-0002 e-0003 e-0005" || x.Entities[c.entityType()] != 4 {
		c.t.Errorf("executed on %s, entities %v", got, x.Entities)
	}
	if jobs := c.listJobs(id, views.JobFilter{Kind: workflow.JobAcquire}); len(jobs) != 1 || jobs[0].State != sm.JobCompleted || jobs[0].Entity != nil || c.countCalls("find", "ACQUIRE") != 1 {
		c.t.Errorf("jobs %+v, %d calls", jobs, c.countCalls("find", "ACQUIRE"))
	}
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id && k.Operation == "ACQUIRE" && (k.Parameters["raw"] != "${x}" || k.Token != nil) {
			c.t.Errorf("the block was called with %v, token %v", k.Parameters, deref(k.Token))
		}
	}
	id = c.startWorkflow(`{"n":0}`, ids[4])
	x = c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != "NOT_FOUND" || c.executedEntities(id) != "" {
		c.t.Errorf("error %+v, executed on %s", x.Error, c.executedEntities(id))
	}
	for _, e := range c.history(id) {
		if e.Type == string(sm.EventLockRequested) {
			c.t.Error("something was locked")
		}
	}
}

// Entities are acquired by ids in the parameters, through entities of another type, by
// group and by query; each is in the scope once.
func acquireExpanded(c *fixture) {
	site := c.entityType() + "-site"
	var lines strings.Builder
	for i, groups := range []string{"[]", "[]", "[]", "[]", `["core"]`, "[]"} {
		fmt.Fprintf(&lines, `{"type":%q,"id":"d%d","attributes":{"n":%d},"groups":%s}`+"\n", c.entityType(), i+1, i+1, groups)
	}
	fmt.Fprintf(&lines, `{"type":%q,"id":"zrh","attributes":{"devices":["d1","d2"]}}`+"\n"+`{"type":%q,"id":"ber","attributes":{"devices":["d2","d3"]}}`+"\n", site, site)
	if _, err := c.ImportEntities(c.t.Context(), strings.NewReader(lines.String())); err != nil {
		c.t.Fatal(err)
	}
	c.registerBlock("work", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("acquire:\n  - {type: "+site+", ids: '${parameters.sites}'}\n  - {type: "+c.entityType()+", expand: {from: "+site+", ids: entity.devices}}\n"+
		"  - {type: "+c.entityType()+", groups: [core]}\n  - {type: "+c.entityType()+", query: entity.n == 6}\n", "label: work, block: work, runOn: KIND")
	for sites, want := range map[string]string{`["zrh"]`: "d1 d2 d5 d6", `["zrh","ber"]`: "d1 d2 d3 d5 d6"} {
		id := c.startWorkflow(`{"sites":` + sites + `}`)
		x := c.waitEnded(id, sm.ExecutionCompletedAck)
		if got := c.executedEntities(id); got != want || x.Entities[c.entityType()] != len(strings.Fields(want)) || x.Entities[site] != len(strings.Split(sites, ",")) {
			c.t.Errorf("with %s: executed on %s, entities %v", sites, got, x.Entities)
		}
	}
	x := c.waitEnded(c.startWorkflow(`{"sites":["missing"]}`), sm.ExecutionFailedSafeAck)
	if !strings.Contains(x.Reason, "missing") {
		c.t.Errorf("reason %q", x.Reason)
	}
}

// What an execution holds cannot be deleted. An import leaves what a block has set, one that
// replaces does not. What was deleted is not found any more, until it is stored again.
func inventoryChangesByPeople(c *fixture) {
	ctx, ids := c.t.Context(), c.importEntities(c.entityType(), 2)
	key := workflow.EntityKey{Type: c.entityType(), ID: ids[0]}
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		g.wait(k)
		return c.updateAnswer(k.entityID(), map[string]any{"byBlock": true})
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids[0])
	<-g.entered
	var refused *workflow.Error
	if _, err := c.DeleteEntity(ctx, key, 0); !errors.As(err, &refused) || refused.Code != workflow.CodeEntityLocked || !strings.Contains(refused.Message, id) {
		c.t.Errorf("deleted while it is held: %v", err)
	}
	if e, err := c.PatchEntity(ctx, key, views.EntityPatch{Set: map[string]json.RawMessage{"byHand": json.RawMessage("1")}}); err != nil || string(e.Attributes) != `{"byHand":1,"n":1}` {
		c.t.Errorf("patched to %s, %v", e.Attributes, err)
	}
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	line := fmt.Sprintf(`{"type":%q,"id":%q,"attributes":{"n":7}}`, key.Type, key.ID)
	if _, err := c.ImportEntities(ctx, strings.NewReader(line)); err != nil {
		c.t.Fatal(err)
	}
	if got := c.entityAttributes(ids[0]); got != `{"byBlock":true,"byHand":1,"n":7}` {
		c.t.Errorf("after an import: %s", got)
	}
	if _, err := c.Import(ctx, strings.NewReader(line), client.ImportOptions{Replace: true}); err != nil {
		c.t.Fatal(err)
	}
	if got := c.entityAttributes(ids[0]); got != `{"n":7}` {
		c.t.Errorf("after an import that replaces: %s", got)
	}
	before, err := c.DeleteEntity(ctx, key, 0)
	if err != nil || before.ID != ids[0] {
		c.t.Fatalf("%+v, %v", before, err)
	}
	if _, err := c.Entity(ctx, key); !workflow.Is(err, workflow.CodeNotFound) {
		c.t.Errorf("a deleted entity: %v", err)
	}
	x := c.waitEnded(c.startWorkflow("{}", ids[0]), sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != workflow.FailureEntityNotFound {
		c.t.Errorf("an execution over it: %+v", x.Error)
	}
	if e, err := c.PutEntity(ctx, workflow.Entity{Type: key.Type, ID: key.ID}); err != nil || e.Version <= before.Version || e.Token != before.Token {
		c.t.Errorf("stored again: %+v after %+v, %v", e, before, err)
	}
}
