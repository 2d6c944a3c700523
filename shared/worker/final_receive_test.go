package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fakeWakeupSender is a queue that remembers.
type fakeWakeupSender struct {
	delays  []time.Duration
	wakeups []workflow.Wakeup
	err     error
}

func (q *fakeWakeupSender) SendWakeups(ctx context.Context, delay time.Duration, looks ...workflow.Wakeup) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	q.delays, q.wakeups = append(q.delays, delay), append(q.wakeups, looks...)
	return q.err
}

func finalReceiveMessage() *workflow.PackMessage {
	return &workflow.PackMessage{
		Key:  workflow.PackKey{Tenant: "acme", Execution: "x", StepRunOrdinal: 1, StepRunSeq: 2, Lane: 3, Attempt: 1},
		Work: workflow.Work{Step: "upgrade", Pool: "edge", Timeout: workflow.Duration(time.Minute)},
		Jobs: []workflow.JobInput{{Index: 7}, {Index: 8}},
	}
}

// Whoever fails at the last permitted receive says so, even when its time is up;
// whoever fails before, or does not fail, says nothing.
func TestFinalReceive_ReportsOnlyLastFailure(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
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
		q := &fakeWakeupSender{}
		NewFinalReceive(FinalReceiveOptions{MaxReceives: 20, WakeupSender: q, Logger: slog.New(slog.DiscardHandler)}, "m-1", c.receives, finalReceiveMessage()).ReportFailure(cancelled, c.err)
		if c.want == "" {
			if len(q.wakeups) > 0 {
				t.Errorf("%s: told %+v", name, q.wakeups)
			}
			continue
		}
		if len(q.wakeups) != 1 || q.wakeups[0].DeadLetter == nil || q.delays[0] != 0 {
			t.Fatalf("%s: told %+v after %v", name, q.wakeups, q.delays)
		}
		l := q.wakeups[0]
		if d := *l.DeadLetter; l.Tenant != "acme" || l.Execution != "x" || d.MessageID != "m-1" || d.Queue != "jobs-edge" || d.Step != "upgrade" ||
			d.ReceiveCount != c.receives || *d.Pack != finalReceiveMessage().Key || d.Provisional || d.Reason != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A reason is bounded, wherever it is cut.
func TestFailureReason_IsBounded(t *testing.T) {
	for _, r := range []string{"x", "ü", "語"} {
		reason := failureReason(workflow.Errorf(workflow.CodeInvalid, "%s", strings.Repeat(r, 5000)))
		if len(reason) > 250 || strings.ToValidUTF8(reason, "?") != reason {
			t.Errorf("%d bytes: %q", len(reason), reason)
		}
	}
}

// What may kill its process is told beforehand, to be heard afterwards.
func TestFinalReceive_ReportsUnclaimedStartAhead(t *testing.T) {
	q := &fakeWakeupSender{err: errors.New("no")}
	rules := FinalReceiveOptions{MaxReceives: 20, LeaseDuration: time.Minute, WakeupSender: q, Logger: slog.New(slog.DiscardHandler)}
	NewFinalReceive(rules, "m-1", 1, finalReceiveMessage()).ReportUnclaimedStart(t.Context())
	if len(q.wakeups) != 0 {
		t.Fatal("told of a try that is not the last")
	}
	try := NewFinalReceive(rules, "m-1", 20, finalReceiveMessage())
	try.ReportUnclaimedStart(t.Context())
	try.ReportFailure(t.Context(), errors.New("it lives"))
	if len(q.wakeups) != 2 || !q.wakeups[0].DeadLetter.Provisional || q.delays[0] != 3*time.Minute || q.wakeups[1].DeadLetter.Provisional {
		t.Errorf("told %+v after %v", q.wakeups, q.delays)
	}
	long := finalReceiveMessage()
	long.Work.Timeout = workflow.Duration(14 * time.Minute)
	NewFinalReceive(rules, "m-1", 20, long).ReportUnclaimedStart(t.Context())
	if q.delays[2] != 15*time.Minute {
		t.Errorf("told after %s, which no queue can do", q.delays[2])
	}
}
