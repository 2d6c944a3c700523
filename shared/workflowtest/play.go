package workflowtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// author publishes, and starts executions unless the test names somebody else.
var author = workflow.Caller{Tenant: "test", Actor: "author"}

// longest is how long a test without stopAfter runs: longer than any wait.
const longest = 500 * 24 * time.Hour

// play runs one test.
type play struct {
	*world
	setting    *setting
	test       *test
	path       string // of the test in its file
	definition *spec.Definition

	started  time.Time
	id       string
	calls    []*call
	used     []bool // answers that were used
	failures []workflow.Issue
}

// newPlay makes a world for a test, with everything that its file names. The error describes what
// is wrong with the files.
func newPlay(ctx context.Context, s *setting, index int) (*play, error) {
	t := &s.tests[index]
	at := startTime
	if t.at != "" {
		at, _ = time.Parse(time.RFC3339, t.at) // was read as a time
	}
	w, err := newWorld(s, at)
	if err != nil {
		return nil, err
	}
	p := &play{world: w, setting: s, test: t, path: fmt.Sprintf("tests[%d]", index), used: make([]bool, len(t.answers))}
	for i, b := range s.blocks {
		if err := p.register(ctx, b); err != nil {
			return nil, s.wrong(fmt.Sprintf("blocks[%d]", max(0, i-len(s.blocks)+len(s.file.blocks))), "block", "block %s is not valid: %v", b.name, err)
		}
	}
	for _, name := range []string{workflow.HTTPReadBlock, workflow.HTTPSetBlock, workflow.HTTPSendBlock} {
		ref, _ := workflow.ParseRef(name)
		b, _ := workflow.BuiltinBlock(ref)
		p.serve(block{Block: b})
	}
	for i, e := range s.entities {
		if _, err := p.catalog.PutEntity(ctx, author, e.Entity); err != nil {
			return nil, s.wrong(fmt.Sprintf("entities[%d]", i), "entity", "%v", err)
		}
	}
	for _, d := range append(slices.Clone(s.definitions), s.main) {
		parsed, err := p.publish(ctx, d)
		if err != nil {
			return nil, err
		}
		p.definition = parsed
	}
	return p, nil
}

// makeTables makes the tables into which the steps of a definition insert rows. A file does not say what
// columns they have: they have those of the rows, for any value.
func (p *play) makeTables(ctx context.Context, source []byte) error {
	d, err := definition.Parse(source)
	if err != nil {
		return nil //nolint:nilerr // publishing it says so
	}
	for _, s := range d.FlatSteps() {
		if s.Insert == nil {
			continue
		}
		table, err := p.catalog.Table(ctx, author, s.Insert.Table)
		if err != nil && !workflow.Is(err, workflow.CodeNotFound) {
			return err
		}
		var row map[string]json.RawMessage
		if err := json.Unmarshal(s.Parameters, &row); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(row)) {
			if table.Column(name) == nil {
				table.Columns = append(table.Columns, workflow.Column{Name: name, Type: workflow.ColumnJSON})
			}
		}
		if _, err := p.catalog.PutTable(ctx, author, s.Insert.Table, views.TableRequest{Columns: table.Columns}); err != nil {
			return err
		}
	}
	return nil
}

// publish publishes a definition whose blocks must be known. It starts nothing by itself.
func (p *play) publish(ctx context.Context, s source) (*spec.Definition, error) {
	if err := p.makeTables(ctx, s.text); err != nil {
		return nil, &FileError{s.path, err}
	}
	published, _, err := p.catalog.Publish(ctx, author, s.text, false)
	if err != nil {
		return nil, &FileError{s.path, err}
	}
	var unknown []workflow.Issue
	for _, w := range published.Warnings {
		if w.Code == "unknown_block" {
			w.Message = strings.Replace(w.Message, "; executions fail until one is registered", ": describe it in the test file, under blocks", 1)
			unknown = append(unknown, w)
		}
	}
	if err := workflow.Invalid("the test does not know all its blocks", unknown); err != nil {
		return nil, &FileError{s.path, err}
	}
	d, err := definition.Parse(s.text)
	if err != nil {
		return nil, &FileError{s.path, err}
	}
	p.world.serveRegion(d.Config.Region)
	for _, s := range d.FlatSteps() {
		if s.Reference != nil {
			p.world.serveRegion(s.Reference.Region)
		}
	}
	for _, name := range append(d.CronNames(), "") {
		if d.CronNamed(name) == nil {
			continue
		}
		if _, err := p.catalog.PauseSchedule(ctx, author, spec.ScheduleName(d.Ref().FullName(), name), "a test starts what it plays"); err != nil {
			return nil, &FileError{s.path, err}
		}
	}
	return d, nil
}

// fail adds a difference from what the test expects.
func (p *play) fail(path, format string, args ...any) {
	p.failures = append(p.failures, workflow.Issue{Path: p.path + "." + path, Code: "expectation", Message: fmt.Sprintf(format, args...)})
}

// run runs the test.
func (p *play) run(ctx context.Context) Result {
	r := Result{Name: p.test.name, Steps: []string{}, Jobs: []string{}, Rollbacks: []string{}, FollowUps: []FollowUp{}}
	p.started = p.Now()
	req := views.StartRequest{Workflow: p.definition.Ref().String(), Parameters: p.test.parameters, Key: p.test.key, Rollback: workflow.RollbackMode(p.test.rollback)}
	if !p.test.entities.Empty() {
		req.ExecuteOnParameters = &p.test.entities
	}
	caller := workflow.Caller{Tenant: author.Tenant, Actor: cmp.Or(p.test.actor, author.Actor), Roles: strings.Join(p.test.roles, ",")}
	x, _, err := p.engine.Start(ctx, caller, req)
	if err != nil {
		p.checkRefused("expect.refused", p.test.expect.refused, "the start", err)
		r.Failures = p.failures
		return r
	}
	p.id = x.ID
	if want := p.test.expect.refused; want != "" {
		p.fail("expect.refused", "want the start to be refused with %s, and it was accepted", want)
	}
	if err := p.playOn(ctx); err != nil {
		p.fail("name", "the test cannot be played: %v", err)
	} else if err := p.check(ctx, &r); err != nil {
		p.fail("expect", "the execution cannot be read: %v", err)
	}
	for _, c := range p.calls {
		switch c.kind {
		case workflow.JobExecute:
			r.Jobs = append(r.Jobs, c.String())
		case workflow.JobRollback:
			r.Rollbacks = append(r.Rollbacks, c.String())
		}
	}
	p.checkCalls(&r)
	r.Failures = p.failures
	return r
}

// playOn runs the events, and then continues until nothing happens any more.
func (p *play) playOn(ctx context.Context) error {
	if err := p.drain(ctx); err != nil {
		return err
	}
	for i := range p.test.events {
		if err := p.happen(ctx, &p.test.events[i], fmt.Sprintf("events[%d]", i)); err != nil {
			return err
		}
	}
	if p.test.stopAfter > 0 {
		return p.runFor(ctx, max(p.end().Sub(p.Now()), 0))
	}
	_, err := p.runUntil(ctx, p.end(), func() bool { return false })
	return err
}

// end returns when the test stops, unless nothing is left to happen before that.
func (p *play) end() time.Time {
	if p.test.stopAfter > 0 {
		return p.started.Add(p.test.stopAfter.Std())
	}
	return p.Now().Add(longest)
}

// happen performs an event.
func (p *play) happen(ctx context.Context, e *event, path string) error {
	caller := workflow.Caller{Tenant: author.Tenant, Actor: cmp.Or(e.by, "somebody"), Roles: strings.Join(e.roles, ",")}
	id := p.id
	if e.answer != nil || e.callback != nil {
		asked, err := p.runUntil(ctx, p.end(), func() bool {
			asking := p.asking(ctx, e.step)
			id = cmp.Or(asking, id)
			return asking != ""
		})
		if err != nil {
			return err
		}
		if !asked {
			p.fail(path+".step", "step %q never asks for an answer", e.step)
			return nil
		}
	}
	if p.test.stopAfter > 0 && p.Now().Add(e.after.Std()).After(p.end()) {
		p.fail(path, "the test stops before this, %s after its start", p.test.stopAfter.Std())
		return nil
	}
	if err := p.runFor(ctx, e.after.Std()); err != nil {
		return err
	}
	var err error
	switch {
	case e.answer != nil:
		_, err = p.engine.Answer(ctx, caller, id, views.AnswerRequest{Input: e.answer, Step: e.step})
	case e.callback != nil:
		err = p.answerCallback(ctx, e)
	case e.signal != "":
		_, err = p.engine.Signal(ctx, caller, id, e.signal, e.data, "", "")
	case e.cancel:
		_, err = p.engine.Cancel(ctx, caller, id, views.CancelRequest{})
	case e.resume:
		_, err = p.engine.Resume(ctx, caller, id, "")
	case e.entity != "":
		key, _ := parseKey(e.entity) // was read as one
		patch := views.EntityPatch{}
		if err = json.Unmarshal(e.set, &patch.Set); err == nil {
			_, err = p.catalog.PatchEntity(ctx, caller, key, patch)
		}
	}
	if err != nil || e.refused != "" {
		p.checkRefused(path+".refused", e.refused, "the event", err)
	}
	return p.drain(ctx)
}

// asking returns the id of the execution whose step asks for an answer; empty if none does.
func (p *play) asking(ctx context.Context, step string) string {
	list, err := p.query.Inbox(ctx, author, false, workflow.Page{Limit: workflow.MaxPageSize})
	if err != nil {
		return ""
	}
	for _, in := range list.Items {
		if in.Step == step {
			return in.Execution
		}
	}
	return ""
}

// answerCallback answers with the token in the parameters of a step's last call, alone or in a
// link.
func (p *play) answerCallback(ctx context.Context, e *event) error {
	err := workflow.Errorf(workflow.CodeNotFound, "no call of step %q has a token among its parameters", e.step)
	for _, c := range slices.Backward(p.calls) {
		if c.step != e.step {
			continue
		}
		for _, text := range texts(decode(c.parameters)) {
			if _, token, isLink := strings.Cut(text, workflow.AnswerPage+"#"); isLink {
				text = token
			}
			_, answered := p.engine.AnswerByToken(ctx, text, views.TokenAnswer{Input: e.callback})
			if answered == nil {
				return nil
			}
			if !workflow.Is(answered, workflow.CodeUnauthorized) {
				return answered
			}
		}
		break
	}
	return err
}

// texts returns all texts in a value.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			all = append(all, texts(item)...)
		}
	case map[string]any:
		for _, item := range v {
			all = append(all, texts(item)...)
		}
	}
	return all
}
