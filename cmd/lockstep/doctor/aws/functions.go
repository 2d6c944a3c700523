package aws

import (
	"context"
	"net/url"
	"slices"
	"strings"
)

const mappingsPath = "/2015-03-31/event-source-mappings/"

// Function is a Lambda function.
type Function struct {
	Name             string            `json:"FunctionName"`
	ARN              string            `json:"FunctionArn"`
	State            string            // Active, Pending, Inactive or Failed
	LastUpdateStatus string            `json:"LastUpdateStatus"` // Successful, InProgress or Failed: what became of the last one
	StatusReason     string            `json:"-"`                // of either, where it is not well
	Timeout          int               // seconds
	Environment      map[string]string `json:"-"`
}

// Function reads a function by its name or ARN.
func (a *Account) Function(ctx context.Context, name string) (Function, error) {
	var found struct {
		Function
		StateReason            string
		LastUpdateStatusReason string
		Environment            struct{ Variables map[string]string }
	}
	if err := a.getJSON(ctx, lambdaAPI, "/2015-03-31/functions/"+functionPathName(name)+"/configuration", &found); err != nil {
		return Function{Name: name}, err
	}
	f := found.Function
	f.Environment = found.Environment.Variables
	if f.StatusReason = found.StateReason; f.StatusReason == "" {
		f.StatusReason = found.LastUpdateStatusReason
	}
	return f, nil
}

// functionPathName is a function's name, of its ARN too, as it stands in a path.
func functionPathName(function string) string {
	if _, rest, ok := strings.Cut(function, ":function:"); ok {
		function, _, _ = strings.Cut(rest, ":")
	}
	return url.PathEscape(function)
}

// AllowsRecursion reports whether Lambda lets a function be part of a loop through a queue.
func (a *Account) AllowsRecursion(ctx context.Context, name string) (bool, error) {
	var found struct{ RecursiveLoop string }
	err := a.getJSON(ctx, lambdaAPI, "/2024-08-31/functions/"+functionPathName(name)+"/recursion-config", &found)
	return found.RecursiveLoop == "Allow", err
}

// ReservedConcurrency is the concurrency that is reserved for a function, if any is: it may
// run so often at a time and no more, at 0 never.
func (a *Account) ReservedConcurrency(ctx context.Context, name string) (n int, reserved bool, err error) {
	var found struct{ ReservedConcurrentExecutions *int }
	err = a.getJSON(ctx, lambdaAPI, "/2019-09-30/functions/"+functionPathName(name)+"/concurrency", &found)
	if err != nil || found.ReservedConcurrentExecutions == nil {
		return 0, false, err
	}
	return *found.ReservedConcurrentExecutions, true, nil
}

// Mapping hands a queue's messages to a function.
type Mapping struct {
	ID                       string `json:"UUID"`
	State                    string // Enabled, or how it is otherwise
	QueueARN                 string `json:"EventSourceArn"`
	FunctionARN              string `json:"FunctionArn"`
	ReportsBatchItemFailures bool   `json:"-"` // messages fail one by one
}

// lambdaMapping is one as Lambda writes it.
type lambdaMapping struct {
	Mapping
	FunctionResponseTypes []string
}

func (m lambdaMapping) toMapping() Mapping {
	m.ReportsBatchItemFailures = slices.Contains(m.FunctionResponseTypes, "ReportBatchItemFailures")
	return m.Mapping
}

// Mapping reads a mapping by its id.
func (a *Account) Mapping(ctx context.Context, id string) (Mapping, error) {
	var found lambdaMapping
	err := a.getJSON(ctx, lambdaAPI, mappingsPath+url.PathEscape(id), &found)
	return found.toMapping(), err
}

// Mappings reads all mappings of a queue by its ARN, whichever stack made them.
func (a *Account) Mappings(ctx context.Context, queue string) ([]Mapping, error) {
	var all []Mapping
	for form := (url.Values{"EventSourceArn": {queue}}); ; {
		var page struct {
			EventSourceMappings []lambdaMapping
			NextMarker          string
		}
		if err := a.getJSON(ctx, lambdaAPI, mappingsPath+"?"+form.Encode(), &page); err != nil {
			return all, err
		}
		for _, m := range page.EventSourceMappings {
			all = append(all, m.toMapping())
		}
		if page.NextMarker == "" {
			return all, nil
		}
		form.Set("Marker", page.NextMarker)
	}
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
	if err := a.postJSON(ctx, eventBridge, "AWSEvents.DescribeRule", map[string]string{"Name": name}, &found); err != nil {
		return Rule{}, err
	}
	var targets struct{ Targets []struct{ Arn string } }
	err := a.postJSON(ctx, eventBridge, "AWSEvents.ListTargetsByRule", map[string]string{"Rule": name}, &targets)
	r := Rule{Enabled: found.State == "ENABLED", Schedule: found.ScheduleExpression}
	for _, t := range targets.Targets {
		r.Targets = append(r.Targets, t.Arn)
	}
	return r, err
}
