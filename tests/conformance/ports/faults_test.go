package ports_test

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// faultInjector sits between the SDK and the network. decide is called for each
// attempt and returns the attempt's error and whether the request reaches the service
// before that.
type faultInjector struct {
	mu           sync.Mutex
	decide       func(operation string) (err error, reaches bool)
	attemptCount int

	withhold func(*awsdynamodb.BatchGetItemOutput) // may remove items from a reply
}

var errReplyLost = errors.New("connection reset by peer")

func (f *faultInjector) set(decide func(operation string) (error, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide, f.attemptCount = decide, 0
}

func (f *faultInjector) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attemptCount
}

// loseReply performs the next write and drops its reply.
func (f *faultInjector) loseReply() {
	armed := true
	f.set(func(operation string) (error, bool) {
		if !armed || operation != "PutItem" && operation != "UpdateItem" {
			return nil, true
		}
		armed = false
		return errReplyLost, true
	})
}

// failCalls answers the first n attempts with an error of the service.
func (f *faultInjector) failCalls(code string, n int) {
	f.set(func(string) (error, bool) {
		if n--; n < 0 {
			return nil, true
		}
		return &smithy.GenericAPIError{Code: code, Message: "slow down"}, false
	})
}

func (f *faultInjector) options(o *awsdynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Faults", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			f.mu.Lock()
			fault, reaches := error(nil), true
			if f.decide != nil {
				fault, reaches = f.decide(awsmiddleware.GetOperationName(ctx))
			}
			f.attemptCount++
			f.mu.Unlock()
			if !reaches {
				return middleware.DeserializeOutput{}, middleware.Metadata{}, fault
			}
			out, md, err := next.HandleDeserialize(ctx, in)
			if fault != nil {
				return middleware.DeserializeOutput{}, md, fault
			}
			if r, ok := out.Result.(*awsdynamodb.BatchGetItemOutput); ok {
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.withhold != nil {
					f.withhold(r)
				}
			}
			return out, md, err
		}), middleware.Before)
	})
}

func awsConfig(url string) aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	}
}
