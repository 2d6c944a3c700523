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

// fakeWakeupSender records what is sent.
type fakeWakeupSender struct {
	delays  []time.Duration
	wakeups []workflow.Wakeup
	err     error
}

func (q *fakeWakeupSender) SendWakeups(ctx context.Context, delay time.Duration, wakeups ...workflow.Wakeup) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	q.delays, q.wakeups = append(q.delays, delay), append(q.wakeups, wakeups...)
	return q.err
}

func finalReceiveMessage() *workflow.PackMessage {
	return &workflow.PackMessage{
		Key:  workflow.PackKey{Tenant: "acme", Execution: "x", StepRunOrdinal: 1, StepRunSeq: 2, Lane: 3, Attempt: 1},
		Work: workflow.Work{Step: "upgrade", Pool: "edge", Timeout: workflow.Duration(time.Minute)},
		Jobs: []workflow.JobInput{{Index: 7}, {Index: 8}},
	}
}

// A failure at the last permitted receive is reported, even if the context has ended. An
// earlier failure, or a success, is not.
func TestFinalReceive_ReportsOnlyLastFailure(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	secret := errors.New("hunter2")
	for name, c := range map[string]struct {
		receives int
		err      error
		want     string
	}{
		"not the last":       {19, secret, ""},
		"success":            {20, nil, ""},
		"workflow error":     {20, workflow.Errorf(workflow.CodeUnavailable, "the jobs of pack 7 cannot be read: %w", secret), "unavailable: the jobs of pack 7 cannot be read"},
		"error with a cause": {20, &workflow.Error{Code: workflow.CodeInternal, Message: "panic", Cause: secret}, "internal: panic"},
		"other error":        {21, secret, "unclassified error; see the log"},
		"time-out":           {20, context.DeadlineExceeded, "timed out"},
	} {
		q := &fakeWakeupSender{}
		NewFinalReceive(FinalReceiveOptions{MaxReceives: 20, WakeupSender: q, Logger: slog.New(slog.DiscardHandler)}, "m-1", c.receives, finalReceiveMessage()).ReportFailure(cancelled, c.err)
		if c.want == "" {
			if len(q.wakeups) > 0 {
				t.Errorf("%s: sent %+v", name, q.wakeups)
			}
			continue
		}
		if len(q.wakeups) != 1 || q.wakeups[0].DeadLetter == nil || q.delays[0] != 0 {
			t.Fatalf("%s: sent %+v with delays %v", name, q.wakeups, q.delays)
		}
		l := q.wakeups[0]
		if d := *l.DeadLetter; l.Tenant != "acme" || l.Execution != "x" || d.MessageID != "m-1" || d.Queue != "jobs-edge" || d.Step != "upgrade" ||
			d.ReceiveCount != c.receives || *d.Pack != finalReceiveMessage().Key || d.Provisional || d.Reason != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A reason is cut at the limit, but never within a character.
func TestFailureReason_IsBounded(t *testing.T) {
	for _, r := range []string{"x", "ü", "語"} {
		reason := failureReason(workflow.Errorf(workflow.CodeInvalid, "%s", strings.Repeat(r, 5000)))
		if len(reason) > 250 || strings.ToValidUTF8(reason, "?") != reason {
			t.Errorf("%d bytes: %q", len(reason), reason)
		}
	}
}

// Before unclaimed jobs start, a provisional report is sent with a delay: they may crash
// the process.
func TestFinalReceive_ReportsUnclaimedStartAhead(t *testing.T) {
	q := &fakeWakeupSender{err: errors.New("no")}
	opts := FinalReceiveOptions{MaxReceives: 20, LeaseDuration: time.Minute, WakeupSender: q, Logger: slog.New(slog.DiscardHandler)}
	NewFinalReceive(opts, "m-1", 1, finalReceiveMessage()).ReportUnclaimedStart(t.Context())
	if len(q.wakeups) != 0 {
		t.Fatal("reported a receive that is not the last")
	}
	final := NewFinalReceive(opts, "m-1", 20, finalReceiveMessage())
	final.ReportUnclaimedStart(t.Context())
	final.ReportFailure(t.Context(), errors.New("not crashed"))
	if len(q.wakeups) != 2 || !q.wakeups[0].DeadLetter.Provisional || q.delays[0] != 3*time.Minute || q.wakeups[1].DeadLetter.Provisional {
		t.Errorf("sent %+v with delays %v", q.wakeups, q.delays)
	}
	long := finalReceiveMessage()
	long.Work.Timeout = workflow.Duration(14 * time.Minute)
	NewFinalReceive(opts, "m-1", 20, long).ReportUnclaimedStart(t.Context())
	if q.delays[2] != 15*time.Minute {
		t.Errorf("sent with a delay of %s, want the queue's maximum", q.delays[2])
	}
}
