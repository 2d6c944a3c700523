package aws

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Account is an account in one region, as its credentials show it.
type Account struct {
	Region string

	tables *dynamodb.Client
	queues *sqs.Client

	credentials  aws.CredentialsProvider
	baseEndpoint string // the endpoint of all services, where one is named
	http         *http.Client
	now          func() time.Time
	retryDelay   time.Duration // before the first repetition
}

// Open reads credentials, region and endpoints where AWS's own tools look for
// them: the environment, AWS_ENDPOINT_URL included, and their files. It sends
// nothing but what getting credentials takes.
func Open(ctx context.Context, now func() time.Time) (*Account, error) {
	account, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	if account.Region == "" {
		return nil, errors.New("no region is named: set AWS_REGION, or a region in the profile")
	}
	if account.Credentials == nil {
		return nil, errors.New("there are no credentials")
	}
	if _, err := account.Credentials.Retrieve(ctx); err != nil {
		return nil, errors.New("there are no credentials that can be used")
	}
	return &Account{
		Region:       account.Region,
		tables:       dynamodb.NewFromConfig(account),
		queues:       sqs.NewFromConfig(account),
		credentials:  account.Credentials,
		baseEndpoint: aws.ToString(account.BaseEndpoint),
		http:         &http.Client{Timeout: 20 * time.Second},
		now:          now,
		retryDelay:   300 * time.Millisecond,
	}, nil
}

// The kinds of parts that are looked at, as CloudFormation names them.
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
	ChangedAt time.Time         // when it was made or last updated
	Outputs   map[string]string // by their ids
	Resources []Resource

	TerminationProtected bool // against being deleted
}

// Resource is a resource of a stack: PhysicalID is the name by which its service knows it, of
// a queue the URL.
type Resource struct {
	Type       string `xml:"ResourceType"`
	LogicalID  string `xml:"LogicalResourceId"`
	PhysicalID string `xml:"PhysicalResourceId"`
}

// PhysicalIDs are the ids of the parts of a kind.
func (s *Stack) PhysicalIDs(kind string) []string {
	var ids []string
	for _, p := range s.Resources {
		if p.Type == kind {
			ids = append(ids, p.PhysicalID)
		}
	}
	return ids
}

// APIURL is where the stack's HTTP interface is, empty if it does not say. A
// stack of somebody else's puts a construct's id before the output's name.
func (s *Stack) APIURL() string {
	for id, value := range s.Outputs {
		if strings.Contains(id, "ApiUrl") && strings.HasPrefix(value, "http") {
			return strings.TrimSuffix(value, "/")
		}
	}
	return ""
}

// ErrStackNotFound says that there is no stack of the name.
var ErrStackNotFound = errors.New("there is no such stack")

const cloudFormationVersion = "2010-05-15"

// Stack reads a stack with all of its parts.
func (a *Account) Stack(ctx context.Context, name string) (Stack, error) {
	var found struct {
		Stacks []struct {
			Status  string    `xml:"StackStatus"`
			Reason  string    `xml:"StackStatusReason"`
			Made    time.Time `xml:"CreationTime"`
			Updated time.Time `xml:"LastUpdatedTime"`
			Keeps   bool      `xml:"EnableTerminationProtection"`
			Outputs []struct {
				Key   string `xml:"OutputKey"`
				Value string `xml:"OutputValue"`
			} `xml:"Outputs>member"`
		} `xml:"DescribeStacksResult>Stacks>member"`
	}
	err := a.postForm(ctx, cloudFormation, cloudFormationVersion, "DescribeStacks", url.Values{"StackName": {name}}, &found)
	switch {
	case hasCode(err, "ValidationError"):
		return Stack{}, ErrStackNotFound
	case err != nil:
		return Stack{}, err
	case len(found.Stacks) == 0:
		return Stack{}, ErrStackNotFound
	}
	first := found.Stacks[0]
	s := Stack{Name: name, Status: first.Status, Reason: first.Reason, ChangedAt: first.Made, Outputs: map[string]string{}, TerminationProtected: first.Keeps}
	if !first.Updated.IsZero() {
		s.ChangedAt = first.Updated
	}
	for _, o := range first.Outputs {
		s.Outputs[o.Key] = o.Value
	}
	for form := (url.Values{"StackName": {name}}); ; {
		var page struct {
			Parts []Resource `xml:"ListStackResourcesResult>StackResourceSummaries>member"`
			Next  string     `xml:"ListStackResourcesResult>NextToken"`
		}
		if err := a.postForm(ctx, cloudFormation, cloudFormationVersion, "ListStackResources", form, &page); err != nil {
			return s, err
		}
		s.Resources = append(s.Resources, page.Parts...)
		if page.Next == "" {
			return s, nil
		}
		form.Set("NextToken", page.Next)
	}
}
