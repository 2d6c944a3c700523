package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var (
	logTestMessage = &workflow.PackMessage{
		Key:  workflow.PackKey{Tenant: "acme", Execution: "x1", StepRunOrdinal: 1, StepRunSeq: 2, Attempt: 3},
		Work: workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0", Step: "upgrade", CorrelationID: "order-7", TraceParent: "00-run"},
	}
	logTestInput = &workflow.JobInput{Index: 4, Entity: &workflow.EntityKey{Type: "device", ID: "d1"}, Parameters: json.RawMessage(`"hunter2"`)}
)

// fakeTracer records spans when they start and when they end.
type fakeTracer struct {
	started []observe.SpanConfig
	ended   []string
}

func (t *fakeTracer) Start(ctx context.Context, s observe.SpanConfig) (in context.Context, end observe.EndFunc) {
	t.started = append(t.started, s)
	return ctx, func(err error, attrs ...slog.Attr) { t.ended = append(t.ended, fmt.Sprint(err, attrs)) }
}

func (t *fakeTracer) Traceparent(context.Context) string { return "00-job" }

// Every line about a pack or a job identifies it. The text of a block's panic is not
// logged, unless it is a runtime error of Go.
func TestLog_NamesPackOrJobWithoutBlockText(t *testing.T) {
	var b bytes.Buffer
	log := observe.NewLog(observe.Options{Writer: &b})
	logUnfinished(t.Context(), log, logTestMessage, "m1", 2, errors.New("no"))
	logUnfinished(t.Context(), log, nil, "m1", 2, errors.New("no"))
	logUnfinished(t.Context(), log, logTestMessage, "m1", 2, nil)
	logBlockPanic(t.Context(), log, jobAttrs(logTestMessage, logTestInput), errors.New("hunter2"))
	logAbandonedJob(t.Context(), log, jobAttrs(logTestMessage, logTestInput))
	func() {
		defer func() {
			logBlockPanic(t.Context(), log, jobAttrs(logTestMessage, logTestInput), recover())
		}()
		var none *workflow.PackMessage
		none.Unsuccessful = true
	}()
	if err := logPanic(t.Context(), log, logTestMessage, "ours"); !workflow.Is(err, workflow.CodeInternal) {
		t.Error(err)
	}
	const execution = `"tenant":"acme","executionId":"x1","correlationId":"order-7","step":"upgrade","attempt":3`
	const job = execution + `,"block":"p/b:1.0.0","jobId":"x1.2.4.3","entity":"device/d1"`
	want := []string{
		`"pack not finished",` + execution + `,"pack":"x1/1.2/0.0.3","messageId":"m1","receives":2,"error":"no"`,
		`"pack not finished","messageId":"m1"`,
		`"panic in a block",` + job + `,"panic":"*errors.errorString","stack":"`,
		`"job ignored its context and was abandoned",` + job,
		`"panic in a block",` + job + `,"panic":"runtime error: invalid memory address or nil pointer dereference"`,
		`"panic",` + execution + `,"pack":"x1/1.2/0.0.3","panic":"ours","stack":"`,
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("wrote %s", b.String())
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) {
			t.Errorf("wrote %s\nwant %s", lines[i], w)
		}
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("wrote %s", b.String())
	}
}

// The alarm on failed packs is about workers that cannot do their part. It ignores packs that were
// cancelled or taken over, or that did not fit into the invocation.
func TestLog_OrdinaryEndsAreNoFailures(t *testing.T) {
	for want, errs := range map[string][]error{
		"INFO": {errClaimLost, errPackCancelled, errWorkerStopped, fmt.Errorf("claim: %w", errClaimLost)},
		"WARN": {errors.New("no"), workflow.Errorf(workflow.CodeUnavailable, "the table throttles"), workflow.Errorf(workflow.CodeInternal, "a panic")},
	} {
		for _, err := range errs {
			var b bytes.Buffer
			logUnfinished(t.Context(), observe.NewLog(observe.Options{Writer: &b}), logTestMessage, "m1", 2, err)
			if !strings.Contains(b.String(), `"level":"`+want+`"`) || isFailure(err) != (want == "WARN") {
				t.Errorf("%v: a failure: %v, wrote %s", err, isFailure(err), b.String())
			}
		}
	}
	if isFailure(nil) {
		t.Error("a pack that ended well is a failure")
	}
}

// A job is a span of its execution's trace. The span ends with the job's outcome and
// without any text of the block.
func TestStartJobSpan_EndsWithJobOutcome(t *testing.T) {
	var b bytes.Buffer
	log, tr := observe.NewLog(observe.Options{Writer: &b, Level: slog.LevelDebug}), &fakeTracer{}
	for _, result := range []JobResult{{Outcome: "OK"}, {Outcome: "ERROR", Failure: &workflow.Failure{Code: "BUSY", Message: "hunter2"}}} {
		_, end := startJobSpan(t.Context(), tr, logTestMessage, logTestInput)
		end(log, result)
	}
	if s := tr.started[0]; len(tr.started) != 2 || s.Name != "EXECUTE p/b:1.0.0" || s.Parent != "00-run" || s.Kind != observe.Consumer || fmt.Sprint(s.Attrs) != fmt.Sprint(jobAttrs(logTestMessage, logTestInput)) {
		t.Errorf("started %+v", tr.started)
	}
	if got := fmt.Sprint(tr.ended); got != "[<nil> [outcome=OK] BUSY[outcome=ERROR code=BUSY]]" {
		t.Errorf("ended %s", got)
	}
	if strings.Count(b.String(), `"job ended"`) != 2 || strings.Contains(b.String(), "hunter2") {
		t.Errorf("wrote %s", b.String())
	}
	if parent := traceParent(t.Context(), tr, logTestMessage); parent != "00-job" {
		t.Error(parent)
	}
	if parent := traceParent(t.Context(), nil, logTestMessage); parent != "00-run" {
		t.Errorf("without a tracer the traceparent is %q", parent)
	}
	b.Reset()
	_, end := startJobSpan(t.Context(), nil, logTestMessage, logTestInput)
	end(observe.NewLog(observe.Options{Writer: &b}), JobResult{Outcome: "OK"})
	if b.Len() > 0 {
		t.Errorf("wrote %s", b.String())
	}
}
