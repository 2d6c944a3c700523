package aws

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
)

// The resource types that the doctor checks, as CloudFormation names them.
const (
	TypeTable    = "AWS::DynamoDB::Table"
	TypeQueue    = "AWS::SQS::Queue"
	TypeFunction = "AWS::Lambda::Function"
	TypeMapping  = "AWS::Lambda::EventSourceMapping"
	TypeRule     = "AWS::Events::Rule"
	TypeAlarm    = "AWS::CloudWatch::Alarm"
)

// Stack is a CloudFormation stack.
type Stack struct {
	Name      string
	Status    string
	Reason    string
	ChangedAt time.Time         // when it was created or last updated
	Outputs   map[string]string // by output key
	Resources []Resource

	TerminationProtected bool // CloudFormation refuses to delete the stack
}

// Resource is a resource of a stack. PhysicalID is the name by which its service
// knows it; for a queue it is the URL.
type Resource struct {
	Type       string
	LogicalID  string
	PhysicalID string
}

// PhysicalIDs returns the physical ids of the stack's resources of one type.
func (s *Stack) PhysicalIDs(resourceType string) []string {
	var ids []string
	for _, r := range s.Resources {
		if r.Type == resourceType {
			ids = append(ids, r.PhysicalID)
		}
	}
	return ids
}

// APIURL returns the URL of the stack's HTTP interface, or "" if no output names
// it. A stack that embeds the engine as a construct has the construct's id before
// the output's name.
func (s *Stack) APIURL() string {
	for key, value := range s.Outputs {
		if strings.Contains(key, "ApiUrl") && strings.HasPrefix(value, "http") {
			return strings.TrimSuffix(value, "/")
		}
	}
	return ""
}

// ErrStackNotFound means that no stack has the name.
var ErrStackNotFound = errors.New("no such stack")

// Stack reads a stack with all of its resources.
func (a *Account) Stack(ctx context.Context, name string) (Stack, error) {
	out, err := a.cloudFormation.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	switch {
	case hasCode(err, "ValidationError") && strings.Contains(err.Error(), "does not exist"): // CloudFormation has no code of its own for it
		return Stack{}, ErrStackNotFound
	case err != nil:
		return Stack{}, err
	case len(out.Stacks) == 0:
		return Stack{}, ErrStackNotFound
	}
	first := out.Stacks[0]
	s := Stack{
		Name: name, Status: string(first.StackStatus), Reason: aws.ToString(first.StackStatusReason), ChangedAt: aws.ToTime(first.CreationTime),
		Outputs: map[string]string{}, TerminationProtected: aws.ToBool(first.EnableTerminationProtection),
	}
	if first.LastUpdatedTime != nil {
		s.ChangedAt = *first.LastUpdatedTime
	}
	for _, o := range first.Outputs {
		s.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	pages := cloudformation.NewListStackResourcesPaginator(a.cloudFormation, &cloudformation.ListStackResourcesInput{StackName: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return s, err
		}
		for _, r := range page.StackResourceSummaries {
			s.Resources = append(s.Resources, Resource{
				Type: aws.ToString(r.ResourceType), LogicalID: aws.ToString(r.LogicalResourceId), PhysicalID: aws.ToString(r.PhysicalResourceId),
			})
		}
	}
	return s, nil
}
