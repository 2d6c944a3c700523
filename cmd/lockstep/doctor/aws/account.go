// Package aws reads the state of a deployed stack: the CloudFormation stack and
// its resources, and the tables, queues, functions, mappings, rules and alarms
// among them. It only reads, and it returns types of its own, so that package
// doctor does not depend on the SDK.
//
// It is for the command's doctor. Nothing that advances an execution imports it.
package aws

import (
	"context"
	"errors"
	"slices"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
)

// requestTimeout bounds one attempt of a request.
const requestTimeout = 20 * time.Second

// Account is an AWS account in one region, with the permissions of its credentials.
type Account struct {
	Region string

	cloudFormation *cloudformation.Client
	cloudWatch     *cloudwatch.Client
	dynamoDB       *dynamodb.Client
	eventBridge    *eventbridge.Client
	lambda         *lambda.Client
	sqs            *sqs.Client
}

// Open reads credentials, region and endpoints from where AWS's own tools read them: the
// environment, including AWS_ENDPOINT_URL, and the shared files. It sends requests only to get
// credentials.
func Open(ctx context.Context, options ...func(*config.LoadOptions) error) (*Account, error) {
	options = append([]func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(requestTimeout)),
	}, options...)
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("no region: set AWS_REGION, or a region in the profile")
	}
	if cfg.Credentials == nil {
		return nil, errors.New("no credentials")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, errors.New("no usable credentials")
	}
	return &Account{
		Region:         cfg.Region,
		cloudFormation: cloudformation.NewFromConfig(cfg),
		cloudWatch:     cloudwatch.NewFromConfig(cfg),
		dynamoDB:       dynamodb.NewFromConfig(cfg),
		eventBridge:    eventbridge.NewFromConfig(cfg),
		lambda:         lambda.NewFromConfig(cfg),
		sqs:            sqs.NewFromConfig(cfg),
	}, nil
}

// IsAccessDenied reports whether the credentials do not allow the request.
func IsAccessDenied(err error) bool {
	return hasCode(err, "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")
}

// IsNotFound reports whether the resource does not exist.
func IsNotFound(err error) bool {
	return hasCode(err, "ResourceNotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
}

func hasCode(err error, codes ...string) bool {
	var apiErr smithy.APIError
	return errors.As(err, &apiErr) && slices.Contains(codes, apiErr.ErrorCode())
}
