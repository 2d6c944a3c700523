package simulator

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
)

// What the end of an execution starts is delivered as events are to subscriptions: handlers publish the events of
// an execution, and others start what follows. A delivery that fails often becomes a dead letter, which an operator
// redrives.

// endsStream is the stream of random numbers for definitions whose ends start executions.
const endsStream = 160

// drawEnds lets the ends of executions start others, in one scenario of 12: those of all definitions, or of some.
// Operators cancel executions and try them again, also when they have ended. One of the definitions that
// are started is published in the meantime, after the deliveries have become dead letters, or never.
func (p *scenario) drawEnds() {
	r := rand.New(rand.NewPCG(p.Seed, endsStream))
	if r.IntN(12) > 0 {
		return
	}
	p.Ends = true
	all, has := r.IntN(2) == 0, map[string]bool{}
	for i := range p.Actions {
		name := p.Actions[i].Definition
		if name == "" {
			continue
		}
		if _, drawn := has[name]; !drawn {
			has[name] = all || r.IntN(2) == 0
		}
		if has[name] {
			p.Actions[i].Definition += withEnds
		}
	}
	within := func(d time.Duration) time.Duration {
		return time.Duration(r.Int64N(d.Milliseconds())) * time.Millisecond
	}
	for range r.IntN(6) {
		kind := []actionKind{actionRetry, actionRetry, actionCancel, actionRewind, actionUnlock, actionAcknowledge}[r.IntN(6)]
		p.Actions = append(p.Actions, action{At: within(8 * time.Minute), Kind: kind, ExecutionIndex: r.IntN(10), Choice: r.IntN(12)})
	}
	if n := r.IntN(4); n > 0 {
		p.PublishAt = within([]time.Duration{5 * time.Minute, 90 * time.Minute, 40 * time.Hour}[n-1]) + time.Millisecond
	}
}

// maxEndsTime is how much longer a scenario takes whose ends start executions: deliveries are given up after a day.
const maxEndsTime = 120 * time.Hour

// maxRedrives is how often an operator redrives dead letters, and redriveAfter how long after the first one.
const maxRedrives, redriveAfter = 2, 20 * time.Hour

// ends is what happens with ends that start executions.
type ends struct {
	handlers  int
	dead      []sim.Message
	redriveAt time.Time
	redrives  int
}

// nextOfEnds calls sooner with what is due of the deliveries.
func (w *simulation) nextOfEnds(sooner func(time.Time, func())) {
	if !w.scenario.Ends {
		return
	}
	if at := w.startedAt.Add(w.scenario.PublishAt); w.scenario.PublishAt > 0 {
		sooner(at, func() {
			w.scenario.PublishAt = 0
			w.plans.Publishing()
			w.publishLater()
		})
	}
	if len(w.ends.dead) > 0 && w.ends.redrives < maxRedrives {
		sooner(w.ends.redriveAt, w.redrive)
	}
	if w.ends.handlers >= maxLifecycleHandlers {
		return
	}
	if t, ok := w.EventsQueue().NextVisible(); ok {
		sooner(t, w.publishEvents)
	}
	if t, ok := w.HooksQueue().NextVisible(); ok {
		sooner(t, w.deliverEnd)
	}
}

// deliversSoon reports whether a delivery is due within a minute. What cannot be started is tried again for a day,
// for which nobody waits.
func (w *simulation) deliversSoon() bool {
	at, ok := w.HooksQueue().NextVisible()
	return w.EventsQueue().Len() > 0 || ok && at.Before(w.Now().Add(time.Minute))
}

// publishLater publishes the definition that is not there at first.
func (w *simulation) publishLater() {
	source := fmt.Sprintf("package: p\nname: %s\nversion: 1.0.0\nseedEntity: device\n%s", defgen.FollowsLater, w.corpus.definition(defgen.FollowsLater).YAML())
	w.spawn("publisher", -1, func() error {
		_, _, err := w.Catalog.Publish(ctx, harness.Caller, []byte(source), false)
		return err
	}, func(p *process) {
		if p.err != nil || p.task.Crashed() {
			w.tryLater(w.publishLater)
			return
		}
		w.plans.Published()
	})
}

// redrive sends the dead letters again.
func (w *simulation) redrive() {
	w.ends.redrives++
	for _, m := range w.ends.dead {
		w.HooksQueue().Send(m.Body, w.Now())
	}
	w.ends.dead = nil
}

// publishEvents delivers an announcement.
func (w *simulation) publishEvents() {
	q := w.EventsQueue()
	m, ok := q.Receive(visibilityTimeout)
	if !ok {
		return
	}
	var retryAfter time.Duration
	w.spawnOfEnds("observer", func() (err error) {
		retryAfter, err = w.Engine.PublishEvents(ctx, m.Announcement())
		return err
	}, func(done bool) {
		switch {
		case done || m.Receives >= topology.MaxReceiveEvents:
			q.Delete(m)
		case retryAfter > 0:
			q.ChangeVisibility(m, retryAfter)
		}
	})
}

// deliverEnd delivers an end to what it starts.
func (w *simulation) deliverEnd() {
	q := w.HooksQueue()
	m, ok := q.Receive(visibilityTimeout)
	if !ok {
		return
	}
	var retryAfter time.Duration
	w.spawnOfEnds("follow-up", func() (err error) {
		retryAfter, err = w.Engine.Deliver(ctx, w.Receivers(), m.Delivery(), m.Receives)
		return err
	}, func(done bool) {
		switch {
		case done:
			q.Delete(m)
		case m.Receives >= topology.MaxReceiveHooksOut:
			q.Delete(m)
			if w.ends.dead = append(w.ends.dead, m); len(w.ends.dead) == 1 {
				w.ends.redriveAt = w.Now().Add(redriveAfter)
			}
		case retryAfter > 0:
			q.ChangeVisibility(m, retryAfter)
		}
	})
}

// spawnOfEnds starts a handler of the deliveries. onEnd gets whether it has succeeded.
func (w *simulation) spawnOfEnds(name string, do func() error, onEnd func(done bool)) {
	w.ends.handlers++
	w.spawn(name, -1, do, func(p *process) {
		w.ends.handlers--
		onEnd(p.err == nil && !p.task.Crashed())
	})
}

// purgeEnds empties the queues of the deliveries.
func (w *simulation) purgeEnds() {
	w.EventsQueue().Purge()
	w.HooksQueue().Purge()
	w.ends.dead = nil
}

// joinFollowUp lets operators act on an execution that an end has started, too.
func (w *simulation) joinFollowUp(before, after *workflow.Execution) {
	if before == nil && after.FollowUpOf != nil {
		w.executions = append(w.executions, after.ID)
	}
}

// checkFollowUps compares what executions show of what their ends have started with what that was.
func (w *simulation) checkFollowUps() *invariant.Violation {
	w.plans.CheckFollowUps()
	if v := w.checker.Violation(); v != nil || w.scenario.RestoreDrill != nil || w.scenario.Retention > 0 {
		return v
	}
	for _, id := range w.executionIDs() {
		started, ok := w.plans.LastEnd(id)
		v, err := w.Query.Execution(ctx, harness.Caller, id)
		if err != nil {
			return &invariant.Violation{Invariant: "what an end has started is shown", Text: err.Error()}
		}
		shown := ""
		if v.FollowUp != nil {
			shown = *v.FollowUp
		}
		if shown != started || (v.FollowUpFailure != nil) != (ok && started == "") {
			return &invariant.Violation{Invariant: "what an end has started is shown", Text: fmt.Sprintf("%s shows %q and %+v, and has started %q", id, shown, v.FollowUpFailure, started)}
		}
	}
	return nil
}
