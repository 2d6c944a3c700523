package cloud

import (
	"context"
	"net/url"
	"slices"
	"strings"
)

// Function is a Lambda function.
type Function struct {
	Name        string            `json:"FunctionName"`
	ARN         string            `json:"FunctionArn"`
	State       string            // Active, Pending, Inactive or Failed
	Update      string            `json:"LastUpdateStatus"` // Successful, InProgress or Failed: what became of the last one
	Reason      string            `json:"-"`                // of either, where it is not well
	Timeout     int               // seconds
	Environment map[string]string `json:"-"`
}

// Function reads a function by its name or ARN.
func (a *Account) Function(ctx context.Context, name string) (Function, error) {
	var found struct {
		Function
		StateReason            string
		LastUpdateStatusReason string
		Environment            struct{ Variables map[string]string }
	}
	if err := a.get(ctx, functions, "/2015-03-31/functions/"+bare(name)+"/configuration", &found); err != nil {
		return Function{Name: name}, err
	}
	f := found.Function
	f.Environment = found.Environment.Variables
	if f.Reason = found.StateReason; f.Reason == "" {
		f.Reason = found.LastUpdateStatusReason
	}
	return f, nil
}

// bare is a function's name, of its ARN too, as it stands in a path.
func bare(function string) string {
	if _, rest, ok := strings.Cut(function, ":function:"); ok {
		function, _, _ = strings.Cut(rest, ":")
	}
	return url.PathEscape(function)
}

// Loops reports whether Lambda lets a function be part of a loop through a queue.
func (a *Account) Loops(ctx context.Context, name string) (bool, error) {
	var found struct{ RecursiveLoop string }
	err := a.get(ctx, functions, "/2024-08-31/functions/"+bare(name)+"/recursion-config", &found)
	return found.RecursiveLoop == "Allow", err
}

// Mapping hands a queue's messages to a function.
type Mapping struct {
	State    string // Enabled, or how it is otherwise
	Queue    string `json:"EventSourceArn"`
	Function string `json:"FunctionArn"`
	Partial  bool   `json:"-"` // messages fail one by one
}

// Mapping reads a mapping by its id.
func (a *Account) Mapping(ctx context.Context, id string) (Mapping, error) {
	var found struct {
		Mapping
		FunctionResponseTypes []string
	}
	err := a.get(ctx, functions, "/2015-03-31/event-source-mappings/"+url.PathEscape(id), &found)
	m := found.Mapping
	m.Partial = slices.Contains(found.FunctionResponseTypes, "ReportBatchItemFailures")
	return m, err
}

// Rule is an EventBridge rule.
type Rule struct {
	Enabled  bool
	Schedule string
	Targets  []string // ARNs
}

// Rule reads a rule of the default bus by its name.
func (a *Account) Rule(ctx context.Context, name string) (Rule, error) {
	var found struct{ State, ScheduleExpression string }
	if err := a.order(ctx, rules, "AWSEvents.DescribeRule", map[string]string{"Name": name}, &found); err != nil {
		return Rule{}, err
	}
	var targets struct{ Targets []struct{ Arn string } }
	err := a.order(ctx, rules, "AWSEvents.ListTargetsByRule", map[string]string{"Rule": name}, &targets)
	r := Rule{Enabled: found.State == "ENABLED", Schedule: found.ScheduleExpression}
	for _, t := range targets.Targets {
		r.Targets = append(r.Targets, t.Arn)
	}
	return r, err
}
