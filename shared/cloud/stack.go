package cloud

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

	credentials aws.CredentialsProvider
	base        string // the endpoint of all services, where one is named
	http        *http.Client
	now         func() time.Time
	pause       time.Duration // before the first repetition
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
		Region:      account.Region,
		tables:      dynamodb.NewFromConfig(account),
		queues:      sqs.NewFromConfig(account),
		credentials: account.Credentials,
		base:        aws.ToString(account.BaseEndpoint),
		http:        &http.Client{Timeout: 20 * time.Second},
		now:         now,
		pause:       300 * time.Millisecond,
	}, nil
}

// The kinds of parts that are looked at, as CloudFormation names them.
const (
	KindTable    = "AWS::DynamoDB::Table"
	KindQueue    = "AWS::SQS::Queue"
	KindFunction = "AWS::Lambda::Function"
	KindMapping  = "AWS::Lambda::EventSourceMapping"
	KindRule     = "AWS::Events::Rule"
	KindAlarm    = "AWS::CloudWatch::Alarm"
)

// Stack is a CloudFormation stack.
type Stack struct {
	Name    string
	Status  string
	Reason  string
	Changed time.Time         // when it was made or last updated
	Outputs map[string]string // by their ids
	Parts   []Part

	Protected bool // against being deleted
}

// Part is a resource of a stack: ID is the name by which its service knows it, of
// a queue the URL.
type Part struct {
	Kind string `xml:"ResourceType"`
	Name string `xml:"LogicalResourceId"`
	ID   string `xml:"PhysicalResourceId"`
}

// Of are the ids of the parts of a kind.
func (s *Stack) Of(kind string) []string {
	var ids []string
	for _, p := range s.Parts {
		if p.Kind == kind {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Address is where the stack's HTTP interface is, empty if it does not say. A
// stack of somebody else's puts a construct's id before the output's name.
func (s *Stack) Address() string {
	for id, value := range s.Outputs {
		if strings.Contains(id, "ApiUrl") && strings.HasPrefix(value, "http") {
			return strings.TrimSuffix(value, "/")
		}
	}
	return ""
}

// ErrNoStack says that there is no stack of the name.
var ErrNoStack = errors.New("there is no such stack")

const formationVersion = "2010-05-15"

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
	err := a.query(ctx, formations, formationVersion, "DescribeStacks", url.Values{"StackName": {name}}, &found)
	switch {
	case isCode(err, "ValidationError"):
		return Stack{}, ErrNoStack
	case err != nil:
		return Stack{}, err
	case len(found.Stacks) == 0:
		return Stack{}, ErrNoStack
	}
	first := found.Stacks[0]
	s := Stack{Name: name, Status: first.Status, Reason: first.Reason, Changed: first.Made, Outputs: map[string]string{}, Protected: first.Keeps}
	if !first.Updated.IsZero() {
		s.Changed = first.Updated
	}
	for _, o := range first.Outputs {
		s.Outputs[o.Key] = o.Value
	}
	for form := (url.Values{"StackName": {name}}); ; {
		var page struct {
			Parts []Part `xml:"ListStackResourcesResult>StackResourceSummaries>member"`
			Next  string `xml:"ListStackResourcesResult>NextToken"`
		}
		if err := a.query(ctx, formations, formationVersion, "ListStackResources", form, &page); err != nil {
			return s, err
		}
		s.Parts = append(s.Parts, page.Parts...)
		if page.Next == "" {
			return s, nil
		}
		form.Set("NextToken", page.Next)
	}
}
