package told_test

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
	"github.com/lockstep-run/lockstep/shared/worker/told"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var (
	message = &workflow.PackMessage{
		Key:  workflow.PackKey{Tenant: "acme", Execution: "x1", Visit: 1, RunSeq: 2, Attempt: 3},
		Work: workflow.Work{Kind: workflow.JobExecute, Block: "p/b:1.0.0", Step: "upgrade", Correlation: "order-7", Trace: "00-run"},
	}
	input = &workflow.JobInput{Index: 4, Entity: &workflow.EntityKey{Type: "device", ID: "d1"}, Parameters: json.RawMessage(`"hunter2"`)}
)

// tracer keeps the spans that are begun, and how they end.
type tracer struct {
	begun []observe.Span
	ended []string
}

func (t *tracer) Begin(ctx context.Context, s observe.Span) (in context.Context, end observe.End) {
	t.begun = append(t.begun, s)
	return ctx, func(err error, about ...slog.Attr) { t.ended = append(t.ended, fmt.Sprint(err, about)) }
}

func (t *tracer) Here(context.Context) string { return "00-job" }

// Every line about a pack or a job says which, and whose; what a block's panic says is
// not told, unless the language itself says it.
func TestLines(t *testing.T) {
	var b bytes.Buffer
	log := observe.NewLog(observe.Options{W: &b})
	told.Unfinished(t.Context(), log, message, "m1", 2, errors.New("no"))
	told.Unfinished(t.Context(), log, nil, "m1", 2, errors.New("no"))
	told.Unfinished(t.Context(), log, message, "m1", 2, nil)
	told.Crash(t.Context(), log, told.Job(message, input), errors.New("hunter2"))
	told.Left(t.Context(), log, told.Job(message, input))
	func() {
		defer func() { told.Crash(t.Context(), log, told.Job(message, input), recover()) }()
		var none *workflow.PackMessage
		none.Bad = true
	}()
	if err := told.Panic(t.Context(), log, message, "ours"); !workflow.Is(err, workflow.CodeInternal) {
		t.Error(err)
	}
	const run = `"tenant":"acme","executionId":"x1","correlationId":"order-7","step":"upgrade","attempt":3`
	const job = run + `,"block":"p/b:1.0.0","jobId":"x1.2.4.3","entity":"device/d1"`
	want := []string{
		`"pack not finished",` + run + `,"pack":"x1/1.2/0.0.3","messageId":"m1","receives":2,"error":"no"`,
		`"pack not finished","messageId":"m1"`,
		`"panic in a block",` + job + `,"panic":"*errors.errorString","stack":"`,
		`"a job does not end and is left to itself",` + job,
		`"panic in a block",` + job + `,"panic":"runtime error: invalid memory address or nil pointer dereference"`,
		`"panic",` + run + `,"pack":"x1/1.2/0.0.3","panic":"ours","stack":"`,
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

// A job is a span of its run's trace, which ends as the job does, without a block's words.
func TestSpans(t *testing.T) {
	var b bytes.Buffer
	log, tr := observe.NewLog(observe.Options{W: &b, Level: slog.LevelDebug}), &tracer{}
	for _, rec := range []workflow.JobRecord{{Outcome: "OK"}, {Outcome: "ERROR", Failure: &workflow.Failure{Code: "BUSY", Message: "hunter2"}}} {
		_, end := told.Begin(t.Context(), tr, message, input)
		end(log, rec)
	}
	if s := tr.begun[0]; len(tr.begun) != 2 || s.Name != "EXECUTE p/b:1.0.0" || s.Parent != "00-run" || s.Kind != observe.Consumer || fmt.Sprint(s.About) != fmt.Sprint(told.Job(message, input)) {
		t.Errorf("began %+v", tr.begun)
	}
	if got := fmt.Sprint(tr.ended); got != "[<nil> [outcome=OK] BUSY[outcome=ERROR code=BUSY]]" {
		t.Errorf("ended %s", got)
	}
	if strings.Count(b.String(), `"job ended"`) != 2 || strings.Contains(b.String(), "hunter2") {
		t.Errorf("wrote %s", b.String())
	}
	if here := told.Here(t.Context(), tr, message); here != "00-job" {
		t.Error(here)
	}
	if here := told.Here(t.Context(), nil, message); here != "00-run" {
		t.Errorf("a worker that takes no spans passes %q on", here)
	}
	b.Reset()
	_, end := told.Begin(t.Context(), nil, message, input)
	end(observe.NewLog(observe.Options{W: &b}), workflow.JobRecord{Outcome: "OK"})
	if b.Len() > 0 {
		t.Errorf("wrote %s", b.String())
	}
}
