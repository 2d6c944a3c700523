package catalog

import (
	"context"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Lint checks a definition without storing it: it returns the warnings of Publish, and those that
// are too strict for a publication, because they are about style or what a block may yet declare.
// longestWait is how long a step may wait under locks before that is worth a warning. The error is
// that of Publish.
func (c *Catalog) Lint(ctx context.Context, caller workflow.Caller, source []byte, longestWait time.Duration) ([]workflow.Issue, error) {
	p, _, err := c.Publish(ctx, caller, source, true)
	if err != nil {
		return nil, err
	}
	d, err := definition.Parse(source)
	if err != nil {
		return nil, err
	}
	w := &warner{ctx: ctx, registry: c.openPorts().Registry, tenant: caller.Tenant, blocks: map[string]*workflow.Block{}}
	paths := program.Paths(d)
	if err := w.checkDeclaredResults(d); err != nil {
		return nil, err
	}
	w.checkLongWaits(d, paths, longestWait)
	w.checkNeverRuns(d, paths)
	return definition.LocateIssues(source, append(p.Warnings, w.issues...)), nil
}

// checkDeclaredResults warns of expressions that read a field of the result of a block that declares
// no results at all: nobody notices if it is misspelt.
func (w *warner) checkDeclaredResults(d *spec.Definition) error {
	steps, warned := stepsByLabel(d), map[string]bool{}
	for path, source := range program.Expressions(d) {
		reads, err := w.resultReads(steps, source)
		if err != nil {
			return err
		}
		for _, r := range reads {
			name := r.fields[0]
			if key := path + " " + r.step + "." + name; len(r.block.ResultSchema) == 0 && !warned[key] {
				warned[key] = true
				w.warn(path, "undeclared_result", "this reads %q of the result of step %q, and block %s has no result schema that declares it", name, r.step, r.block.Ref())
			}
		}
	}
	return nil
}

// checkLongWaits warns of steps that may wait for long while the execution holds its entities. Waits
// for a time that is known only later are not seen.
func (w *warner) checkLongWaits(d *spec.Definition, paths []string, longest time.Duration) {
	if d.Config.LockMode == workflow.LockShared || d.SeedEntity == "" && len(d.Acquisitions()) == 0 {
		return
	}
	long := func(path string, wait workflow.Duration, what string) {
		if wait.Std() > longest {
			w.warn(path, "long_wait", "%s up to %s under the locks of the execution: nobody else can change its entities in that time", what, wait.Std())
		}
	}
	ask := func(path string, deadline workflow.Duration, what string) {
		if deadline == 0 {
			w.warn(path, "long_wait", "%s for as long as a step may wait, under the locks of the execution: give it a deadline", what)
			return
		}
		long(path+".deadline", deadline, what)
	}
	for i, s := range d.FlatSteps() {
		path := paths[i]
		if strings.Contains(path, ".between[") {
			continue // is made of the pause or the question of its rollout
		}
		long(path+".delay", s.Delay, "this waits")
		if r := s.Repeat; r != nil {
			long(path+".repeat.delay", r.Delay, "this waits each time")
		}
		if r := s.Retry; r != nil {
			long(path+".retry.delay", r.Delay, "this waits each time")
		}
		if r := s.Rollout; r != nil {
			long(path+".rollout.pause", r.Pause, "this waits between two waves")
			if r.Approve != nil {
				ask(path+".rollout.approve", r.Approve.Deadline, "this asks people between two waves")
			}
		}
		if s.Callback != nil {
			ask(path+".callback", s.Callback.Deadline, "this waits for an answer")
		}
		if v := s.Wait; v != nil {
			path += ".wait"
			long(path+".for", v.For, "this waits")
			switch {
			case v.When != "":
				ask(path, v.Deadline, "this waits for a condition")
			case v.Input != nil:
				ask(path+".input", v.Input.Deadline, "this asks people")
			case v.Approval != nil:
				ask(path+".approval", v.Approval.Deadline, "this asks people")
			case v.Signal != nil:
				ask(path+".signal", v.Signal.Deadline, "this waits for a signal")
			}
		}
	}
}

// checkNeverRuns warns of steps that execute nothing: their condition is never true, or nothing in
// the definition selects entities of their type. Those to which nothing leads are a warning of
// every publication.
func (w *warner) checkNeverRuns(d *spec.Definition, paths []string) {
	selected := map[string]bool{workflow.RunOnGlobal: true, d.SeedEntity: true}
	for _, a := range d.Acquisitions() {
		selected[a.Type] = true
	}
	for i, s := range d.FlatSteps() {
		if strings.TrimSpace(s.Condition) == "false" {
			w.warn(paths[i]+".condition", "never_true", "step %q never runs: its condition is false", s.Label)
		}
		if s.FunctionBlock != "" && s.Foreach == nil && !selected[s.BlockRunsOn()] {
			w.warn(paths[i]+".runOn", "no_entities", "step %q has no jobs unless whoever starts it selects entities of type %s: it is neither the seedEntity nor acquired", s.Label, s.BlockRunsOn())
		}
	}
}
