package workflow_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestFailure_TruncatesLongText checks that the failure of a block fits the state item,
// however long its texts are.
func TestFailure_TruncatesLongText(t *testing.T) {
	small := &workflow.Failure{Code: "BUSY", Message: "try again", Details: json.RawMessage(`{"a":1}`), Retryable: true, Unsent: true}
	if diff := cmp.Diff(small, small.Truncated()); diff != "" {
		t.Error(diff)
	}
	if (*workflow.Failure)(nil).Truncated() != nil {
		t.Error("truncating nil returns a failure")
	}
	for _, text := range []string{"x", "é", "漢", "😀", "\x01", `"`} {
		long := strings.Repeat(text, 100_000)
		details, err := json.Marshal(map[string]string{"text": long})
		if err != nil {
			t.Fatal(err)
		}
		f := (&workflow.Failure{Code: long, Message: long, Details: details, Retryable: true}).Truncated()
		if len(f.Code) > workflow.MaxFailureCode || len(f.Message) > workflow.MaxFailureMessage || len(f.Details) > workflow.MaxFailureDetails {
			t.Errorf("%q: %d, %d and %d bytes", text, len(f.Code), len(f.Message), len(f.Details))
		}
		if !utf8.ValidString(f.Code+f.Message) || !strings.HasSuffix(f.Message, "…") || !json.Valid(f.Details) || !f.Retryable {
			t.Errorf("%q: %+v", text, f)
		}
		if len(f.Message) < workflow.MaxFailureMessage-8 {
			t.Errorf("%q: only %d bytes are left", text, len(f.Message))
		}
	}
}

// The retry policy decides how often a job is tried, even if its block reports a failure that has
// done nothing. Only withheld jobs count as not tried.
func TestRetryableJobs(t *testing.T) {
	record := func(index int, f workflow.Failure) workflow.JobRecord {
		return workflow.JobRecord{Index: index, Code: workflow.JobCodeFail, Failure: &f}
	}
	p := workflow.Pack{State: workflow.PackFinished, Jobs: []workflow.JobRecord{
		record(0, workflow.Failure{Code: workflow.FailureLimit, Unsent: true, Retryable: true}),
		record(1, workflow.Failure{Code: workflow.FailureWithheld, Unsent: true, Retryable: true}),
		record(2, workflow.Failure{Code: "NO"}),
	}}
	for attempt, want := range map[int][]int{1: {0, 1}, 2: {1}, workflow.MaxRetries + 1: nil} {
		p.Key.Attempt = attempt
		if got := workflow.RetryableJobs(&p, 2); !slices.Equal(got, want) {
			t.Errorf("after attempt %d: %v, want %v", attempt, got, want)
		}
	}
}
