package lasttry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker/lasttry"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// told is a queue that remembers.
type told struct {
	delays []time.Duration
	looks  []workflow.Look
	err    error
}

func (q *told) Notify(ctx context.Context, delay time.Duration, looks ...workflow.Look) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	q.delays, q.looks = append(q.delays, delay), append(q.looks, looks...)
	return q.err
}

func message() *workflow.PackMessage {
	return &workflow.PackMessage{
		Key:  workflow.PackKey{Tenant: "acme", Execution: "x", Visit: 1, RunSeq: 2, Lane: 3, Attempt: 1},
		Work: workflow.Work{Step: "upgrade", Pool: "edge", Timeout: workflow.Duration(time.Minute)},
		Jobs: []workflow.JobInput{{Index: 7}, {Index: 8}},
	}
}

// Whoever fails at the last permitted receive says so, even when its time is up;
// whoever fails before, or does not fail, says nothing.
func TestOnlyTheLastFailureIsTold(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	secret := errors.New("hunter2")
	for name, c := range map[string]struct {
		receives int
		err      error
		want     string
	}{
		"not the last": {19, secret, ""},
		"well":         {20, nil, ""},
		"ours":         {20, workflow.Errorf(workflow.CodeUnavailable, "the jobs of pack 7 cannot be read: %w", secret), "unavailable: the jobs of pack 7 cannot be read"},
		"a cause":      {20, &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: secret}, "internal: panic"},
		"not ours":     {21, secret, "an error that is not one of the engine's"},
		"too late":     {20, context.DeadlineExceeded, "the time was up"},
	} {
		q := &told{}
		lasttry.Of(lasttry.Rules{MaxReceives: 20, Queue: q, Log: slog.New(slog.DiscardHandler)}, "m-1", c.receives, message()).Failed(over, c.err)
		if c.want == "" {
			if len(q.looks) > 0 {
				t.Errorf("%s: told %+v", name, q.looks)
			}
			continue
		}
		if len(q.looks) != 1 || q.looks[0].Dead == nil || q.delays[0] != 0 {
			t.Fatalf("%s: told %+v after %v", name, q.looks, q.delays)
		}
		l := q.looks[0]
		if d := *l.Dead; l.Tenant != "acme" || l.Execution != "x" || d.Message != "m-1" || d.Queue != "jobs-edge" || d.Step != "upgrade" ||
			d.Receives != c.receives || *d.Pack != message().Key || d.Feared || d.Reason != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A reason is bounded, wherever it is cut.
func TestReasonsAreBounded(t *testing.T) {
	for _, r := range []string{"x", "ü", "語"} {
		reason := lasttry.Reason(workflow.Errorf(workflow.CodeInvalid, "%s", strings.Repeat(r, 5000)))
		if len(reason) > 250 || strings.ToValidUTF8(reason, "?") != reason {
			t.Errorf("%d bytes: %q", len(reason), reason)
		}
	}
}

// What may kill its process is told beforehand, to be heard afterwards.
func TestBegunIsToldBeforehand(t *testing.T) {
	q := &told{err: errors.New("no")}
	rules := lasttry.Rules{MaxReceives: 20, Lease: time.Minute, Queue: q, Log: slog.New(slog.DiscardHandler)}
	lasttry.Of(rules, "m-1", 1, message()).Begun(t.Context())
	if len(q.looks) != 0 {
		t.Fatal("told of a try that is not the last")
	}
	try := lasttry.Of(rules, "m-1", 20, message())
	try.Begun(t.Context())
	try.Failed(t.Context(), errors.New("it lives"))
	if len(q.looks) != 2 || !q.looks[0].Dead.Feared || q.delays[0] != 3*time.Minute || q.looks[1].Dead.Feared {
		t.Errorf("told %+v after %v", q.looks, q.delays)
	}
	long := message()
	long.Work.Timeout = workflow.Duration(14 * time.Minute)
	lasttry.Of(rules, "m-1", 20, long).Begun(t.Context())
	if q.delays[2] != 15*time.Minute {
		t.Errorf("told after %s, which no queue can do", q.delays[2])
	}
}
