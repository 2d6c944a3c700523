package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxFireWrites bounds how often a fire is retried because others are writing the schedule.
const maxFireWrites = 16

// Fire starts an execution of a schedule now, even while the schedule is paused, and returns its
// id. Like a fire time, it is recorded first: if the caller dies before the execution exists, the
// next sweep creates it. A repeated call with the same key starts nothing. Fire returns
// CodeConflict if an execution of the schedule has not ended, unless the schedule allows several at
// once, and CodeNotFound if the schedule is off.
func Fire(ctx context.Context, e *engine.Engine, caller workflow.Caller, name, key string) (id string, existed bool, err error) {
	c := newSweeper(e, workers.LivenessTimeouts{}).schedules
	if key == "" {
		key = e.NewID() // generated once: it identifies a write whose reply was lost
	}
	sum := sha256.Sum256([]byte(key))
	keyDigest := base64.RawURLEncoding.EncodeToString(sum[:12])
	for range maxFireWrites {
		s, err := c.Schedules.Schedule(ctx, caller.Tenant, name)
		if err != nil {
			return "", false, err
		}
		if s.Off() {
			return "", false, catalog.NoSchedule(s)
		}
		if at := slices.IndexFunc(s.Recent, func(r spec.ScheduledStart) bool { return r.Key == keyDigest }); at >= 0 {
			id = s.Recent[at].Execution
			return id, true, c.finish(ctx, s, id)
		}
		due, err := c.evaluateLoaded(ctx, s)
		if err == nil && due == nil && !s.FiringAt.IsZero() {
			due, err = c.begun(ctx, s)
		}
		if err != nil {
			return "", false, err
		}
		if due != nil { // a firing that has begun, or a fire time that has passed, comes first
			if _, err := c.fire(ctx, *due); err != nil {
				return "", false, err
			}
			continue
		}
		busy, err := c.lastIsActive(ctx, s)
		if err != nil {
			return "", false, err
		}
		if busy {
			return "", false, workflow.Errorf(workflow.CodeConflict, "execution %s of schedule %s has not ended, and the schedule allows one at a time", s.LastExecution, name)
		}
		at := c.Now().UTC().Truncate(time.Second).Add(time.Millisecond) // no fire time has a fraction
		if !s.LastAt.Before(at) {
			at = s.LastAt.Add(time.Millisecond)
		}
		if !s.NextAt.IsZero() && !at.Before(s.NextAt) {
			continue // a fire time has arrived in between, and comes first
		}
		id = ExecutionID(caller.Tenant, name, at, c.MinFencingToken)
		s.Begin(spec.ScheduledStart{Execution: id, At: at, By: caller.Actor, Key: keyDigest})
		s.NextAt = at // so that a sweep sees it
		ok, err := c.Schedules.PutSchedule(ctx, s)
		if err != nil {
			return "", false, err
		}
		if !ok {
			continue
		}
		s.Version++
		return id, false, c.finish(ctx, s, id)
	}
	return "", false, workflow.Errorf(workflow.CodeConflict, "other requests are changing the schedule of %s: try again", name)
}

// finish creates the execution that was recorded last, unless it exists. It fails if the execution
// can never be created; after any other error the next sweep creates it.
func (c *cronScheduler) finish(ctx context.Context, s spec.Schedule, id string) error {
	if s.LastExecution != id {
		return nil
	}
	if !s.FiringAt.IsZero() {
		started, err := c.fire(ctx, firing{schedule: s, fireTime: s.FiringAt, recorded: true, minFencingToken: c.MinFencingToken})
		if err != nil {
			c.logFailure(ctx, s, err)
		}
		if started || err != nil {
			return nil
		}
		if s, err = c.Schedules.Schedule(ctx, s.Tenant, s.Name); err != nil {
			return err
		}
	}
	if s.LastExecution == id && s.Problem != "" {
		return workflow.Errorf(workflow.CodeIllegalTransition, "schedule %s cannot start an execution: %s", s.Name, s.Problem)
	}
	return nil
}
