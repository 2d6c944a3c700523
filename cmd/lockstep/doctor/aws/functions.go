package aws

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventbridgetypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// Function is a Lambda function.
type Function struct {
	Name             string
	ARN              string
	State            string // Active, Pending, Inactive or Failed
	LastUpdateStatus string // of the last update: Successful, InProgress or Failed
	StatusReason     string // of State, else of LastUpdateStatus; empty if both are good
	Timeout          int    // seconds
	Environment      map[string]string
}

// Function reads a function by its name or ARN.
func (a *Account) Function(ctx context.Context, name string) (Function, error) {
	out, err := a.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: functionName(name)})
	if err != nil {
		return Function{Name: name}, err
	}
	f := Function{
		Name: aws.ToString(out.FunctionName), ARN: aws.ToString(out.FunctionArn),
		State: string(out.State), LastUpdateStatus: string(out.LastUpdateStatus), StatusReason: aws.ToString(out.StateReason),
		Timeout: int(aws.ToInt32(out.Timeout)),
	}
	if f.StatusReason == "" {
		f.StatusReason = aws.ToString(out.LastUpdateStatusReason)
	}
	if out.Environment != nil {
		f.Environment = out.Environment.Variables
	}
	return f, nil
}

// functionName returns the plain name of a function given by its name or ARN. It
// drops a version or alias, which not every call takes.
func functionName(function string) *string {
	if _, rest, ok := strings.Cut(function, ":function:"); ok {
		function, _, _ = strings.Cut(rest, ":")
	}
	return &function
}

// AllowsRecursion reports whether Lambda lets the function be part of a loop through a queue.
func (a *Account) AllowsRecursion(ctx context.Context, name string) (bool, error) {
	out, err := a.lambda.GetFunctionRecursionConfig(ctx, &lambda.GetFunctionRecursionConfigInput{FunctionName: functionName(name)})
	if err != nil {
		return false, err
	}
	return out.RecursiveLoop == lambdatypes.RecursiveLoopAllow, nil
}

// ReservedConcurrency returns the concurrency that is reserved for a function, and
// whether any is. The function never exceeds it; with 0 it never starts.
func (a *Account) ReservedConcurrency(ctx context.Context, name string) (n int, reserved bool, err error) {
	out, err := a.lambda.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: functionName(name)})
	if err != nil || out.ReservedConcurrentExecutions == nil {
		return 0, false, err
	}
	return int(*out.ReservedConcurrentExecutions), true, nil
}

// Concurrency returns how many invocations may run at a time in this account and region, without
// those reserved for functions.
func (a *Account) Concurrency(ctx context.Context) (int, error) {
	out, err := a.lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil || out.AccountLimit == nil {
		return 0, err
	}
	return int(aws.ToInt32(out.AccountLimit.UnreservedConcurrentExecutions)), nil
}

// Mapping is a Lambda event source mapping: it passes a queue's messages to a function.
type Mapping struct {
	ID                       string
	State                    string // Enabled, Disabled, or a state in between
	QueueARN                 string
	FunctionARN              string
	ReportsBatchItemFailures bool // the function reports failed messages one by one
	MaxConcurrency           int  // invocations at a time, 0 without a limit
}

func newMapping(id, state, queueARN, functionARN *string, responseTypes []lambdatypes.FunctionResponseType, scaling *lambdatypes.ScalingConfig) Mapping {
	limit := 0
	if scaling != nil {
		limit = int(aws.ToInt32(scaling.MaximumConcurrency))
	}
	return Mapping{
		MaxConcurrency: limit,

		ID: aws.ToString(id), State: aws.ToString(state), QueueARN: aws.ToString(queueARN), FunctionARN: aws.ToString(functionARN),
		ReportsBatchItemFailures: slices.Contains(responseTypes, lambdatypes.FunctionResponseTypeReportBatchItemFailures),
	}
}

// Mapping reads a mapping by its id.
func (a *Account) Mapping(ctx context.Context, id string) (Mapping, error) {
	m, err := a.lambda.GetEventSourceMapping(ctx, &lambda.GetEventSourceMappingInput{UUID: &id})
	if err != nil {
		return Mapping{}, err
	}
	return newMapping(m.UUID, m.State, m.EventSourceArn, m.FunctionArn, m.FunctionResponseTypes, m.ScalingConfig), nil
}

// Mappings reads all mappings of a queue by its ARN, whichever stack created them.
func (a *Account) Mappings(ctx context.Context, queueARN string) ([]Mapping, error) {
	var all []Mapping
	pages := lambda.NewListEventSourceMappingsPaginator(a.lambda, &lambda.ListEventSourceMappingsInput{EventSourceArn: &queueARN})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return all, err
		}
		for _, m := range page.EventSourceMappings {
			all = append(all, newMapping(m.UUID, m.State, m.EventSourceArn, m.FunctionArn, m.FunctionResponseTypes, m.ScalingConfig))
		}
	}
	return all, nil
}

// Rule is an EventBridge rule.
type Rule struct {
	Enabled  bool
	Schedule string
	Targets  []string // ARNs
}

// Rule reads a rule of the default event bus by its name.
func (a *Account) Rule(ctx context.Context, name string) (Rule, error) {
	rule, err := a.eventBridge.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: &name})
	if err != nil {
		return Rule{}, err
	}
	r := Rule{Enabled: rule.State == eventbridgetypes.RuleStateEnabled, Schedule: aws.ToString(rule.ScheduleExpression)}
	targets, err := a.eventBridge.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: &name})
	if err != nil {
		return r, err
	}
	for _, t := range targets.Targets {
		r.Targets = append(r.Targets, aws.ToString(t.Arn))
	}
	return r, nil
}
