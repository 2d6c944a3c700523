package catalog

import (
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

const longWait = "long_wait" // code of a wait under locks that may take long

// longestQuestion is how long an execution may wait for people under its locks before Publish warns.
const longestQuestion = time.Hour

// checkLongWaits warns about steps that may wait for long while the execution holds its entities:
// for people or, if all is set, for anything. It cannot see waits for a time that is known only
// later.
func (w *warner) checkLongWaits(d *spec.Definition, paths []string, longest time.Duration, all bool) {
	if d.Config.LockMode == workflow.LockShared || d.SeedEntity == "" && len(d.Acquisitions()) == 0 {
		return
	}
	long := func(path string, wait workflow.Duration, what string) {
		if all && wait.Std() > longest {
			w.warn(path, longWait, "%s up to %s under the locks of the execution: nobody else can change its entities in that time", what, wait.Std())
		}
	}
	bounded := func(path string, deadline workflow.Duration, what, instead string) {
		switch {
		case deadline == 0:
			w.warn(path, longWait, "%s for as long as a step may wait, under the locks of the execution: give it a deadline%s", what, instead)
		case deadline.Std() > longest:
			w.warn(path+".deadline", longWait, "%s up to %s under the locks of the execution: nobody else can change its entities in that time%s", what, deadline.Std(), instead)
		}
	}
	ask := func(path string, deadline workflow.Duration, what string) {
		bounded(path, deadline, what, "; a workflow without entities can ask before it dispatches this one")
	}
	for i, s := range d.FlatSteps() {
		path := paths[i]
		if strings.Contains(path, ".between[") {
			continue // derived from the pause or the question of its rollout
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
				bounded(path+".rollout.approve", r.Approve.Deadline, "this asks people between two waves", "")
			}
		}
		if s.Callback != nil {
			ask(path+".callback", s.Callback.Deadline, "this waits for an answer")
		}
		v := s.Wait
		if v == nil {
			continue
		}
		path += ".wait"
		long(path+".for", v.For, "this waits")
		switch {
		case v.When != "" && all:
			bounded(path, v.Deadline, "this waits for a condition", "")
		case v.Input != nil:
			ask(path+".input", v.Input.Deadline, "this asks people")
		case v.Approval != nil:
			ask(path+".approval", v.Approval.Deadline, "this asks people")
		case v.Signal != nil && all:
			bounded(path+".signal", v.Signal.Deadline, "this waits for a signal", "")
		}
	}
}
